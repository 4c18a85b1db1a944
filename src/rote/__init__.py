"""rote: how much a transformer can memorise, and the weights that do it.

    table = rote.read("facts.csv")              a file, or shipped facts by name; what it holds is found out
    rote.bound(arch), rote.plan(table)          how much a shape holds; how small will do
    rote.check(table)                           do the data meet the theorems' assumptions?
    memory = rote.build(table)                  a model that recalls everything, judged from its files
    memory.ask("KJFK"), memory.save("model")    ask it, keep it
    rote.load("model"), rote.verify("model")    read it back, run every fact again
    memory.edit(set={"KJFK": "Canada"})         change, forget or add single facts
    rote.export("model", "model.gguf")          for llama.cpp, or as ONNX
    rote.graft, rote.ungraft, rote.audit        pretrained models
    rote.measure, rote.sweep, rote.fit, rote.reproduce, rote.report     measurements

The public names load on first use, so that `import rote` costs next to nothing.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from rote._version import __version__

if TYPE_CHECKING:
    from rote.analyse.audit import audit as audit
    from rote.analyse.fit import fit as fit
    from rote.assumptions import check as check
    from rote.capacity import Bounds as Bounds
    from rote.capacity import bound as bound
    from rote.capacity import bounds as bounds
    from rote.certificate import Certificate as Certificate
    from rote.config import Architecture as Architecture
    from rote.config import Shape as Shape
    from rote.constructions import Construction as Construction
    from rote.constructions import Options as Options
    from rote.constructions import Plan as Plan
    from rote.constructions.argmax_fit import ArgmaxFit as ArgmaxFit
    from rote.constructions.dana2025_cor1 import ExactAssociation as ExactAssociation
    from rote.constructions.dana2025_thm1 import Interpolation as Interpolation
    from rote.constructions.distribution_refit import DistributionRefit as DistributionRefit
    from rote.constructions.graft import Graft as Graft
    from rote.constructions.hashed_sequences import HashedSequences as HashedSequences
    from rote.constructions.hashed_table import HashedTable as HashedTable
    from rote.constructions.kajitsuka2025_next_token import BitExtraction as BitExtraction
    from rote.constructions.kajitsuka2025_seq2seq import SequenceBitExtraction as SequenceBitExtraction
    from rote.constructions.local_heads import LocalHeads as LocalHeads
    from rote.constructions.mahdavi2024_thm1 import Saturation as Saturation
    from rote.constructions.mahdavi_random_features import RandomFeatures as RandomFeatures
    from rote.constructions.mlp_fit import MlpFit as MlpFit
    from rote.constructions.stock_hashed import StockHashed as StockHashed
    from rote.constructions.stock_llama import StockLlama as StockLlama
    from rote.constructions.trained import Trained as Trained
    from rote.data import Change as Change
    from rote.data import DistributionTable as DistributionTable
    from rote.data import FactTable as FactTable
    from rote.data import PromptTable as PromptTable
    from rote.data import SequenceTable as SequenceTable
    from rote.data import Table as Table
    from rote.data import VectorTable as VectorTable
    from rote.data import Verification as Verification
    from rote.data import read as read
    from rote.errors import RoteError as RoteError
    from rote.exhibits import zoo as zoo
    from rote.exporting import export as export
    from rote.grafting import graft as graft
    from rote.grafting import prompts as prompts
    from rote.grafting import ungraft as ungraft
    from rote.grids import bounds_frame as bounds_frame
    from rote.lab.entries import reproduce as reproduce
    from rote.lab.report import report as report
    from rote.measurement import measure as measure
    from rote.measurement import sweep as sweep
    from rote.memory import Memory as Memory
    from rote.models import Model as Model
    from rote.operate.compare import compare as compare
    from rote.operate.edit import edit as edit
    from rote.operate.packing import graft_apply as graft_apply
    from rote.operate.packing import graft_pack as graft_pack
    from rote.operate.regraft import graft_add as graft_add
    from rote.operate.regraft import graft_remove as graft_remove
    from rote.operate.regraft import graft_update as graft_update
    from rote.pipeline import build as build
    from rote.pipeline import load as load
    from rote.pipeline import verify as verify
    from rote.plans import Plans as Plans
    from rote.plans import plan as plan
    from rote.theorems import Bound as Bound
    from rote.theorems import Citation as Citation
    from rote.theorems import Condition as Condition
    from rote.theorems import Demand as Demand
    from rote.theorems import Setting as Setting
    from rote.theorems import Theorem as Theorem
    from rote.theorems import condition as condition

_HOME = {
    "Architecture": "rote.config",
    "ArgmaxFit": "rote.constructions.argmax_fit",
    "BitExtraction": "rote.constructions.kajitsuka2025_next_token",
    "Bound": "rote.theorems",
    "Bounds": "rote.capacity",
    "Certificate": "rote.certificate",
    "Change": "rote.data",
    "Citation": "rote.theorems",
    "Condition": "rote.theorems",
    "Construction": "rote.constructions",
    "Demand": "rote.theorems",
    "DistributionRefit": "rote.constructions.distribution_refit",
    "DistributionTable": "rote.data",
    "ExactAssociation": "rote.constructions.dana2025_cor1",
    "FactTable": "rote.data",
    "Graft": "rote.constructions.graft",
    "HashedSequences": "rote.constructions.hashed_sequences",
    "HashedTable": "rote.constructions.hashed_table",
    "Interpolation": "rote.constructions.dana2025_thm1",
    "LocalHeads": "rote.constructions.local_heads",
    "Memory": "rote.memory",
    "MlpFit": "rote.constructions.mlp_fit",
    "Model": "rote.models",
    "Options": "rote.constructions",
    "Plan": "rote.constructions",
    "Plans": "rote.plans",
    "PromptTable": "rote.data",
    "RandomFeatures": "rote.constructions.mahdavi_random_features",
    "RoteError": "rote.errors",
    "Saturation": "rote.constructions.mahdavi2024_thm1",
    "SequenceBitExtraction": "rote.constructions.kajitsuka2025_seq2seq",
    "SequenceTable": "rote.data",
    "Setting": "rote.theorems",
    "Shape": "rote.config",
    "StockHashed": "rote.constructions.stock_hashed",
    "StockLlama": "rote.constructions.stock_llama",
    "Table": "rote.data",
    "Theorem": "rote.theorems",
    "Trained": "rote.constructions.trained",
    "VectorTable": "rote.data",
    "Verification": "rote.data",
    "audit": "rote.analyse.audit",
    "bound": "rote.capacity",
    "bounds": "rote.capacity",
    "bounds_frame": "rote.grids",
    "build": "rote.pipeline",
    "check": "rote.assumptions",
    "compare": "rote.operate.compare",
    "condition": "rote.theorems",
    "edit": "rote.operate.edit",
    "export": "rote.exporting",
    "fit": "rote.analyse.fit",
    "graft": "rote.grafting",
    "graft_add": "rote.operate.regraft",
    "graft_apply": "rote.operate.packing",
    "graft_pack": "rote.operate.packing",
    "graft_remove": "rote.operate.regraft",
    "graft_update": "rote.operate.regraft",
    "load": "rote.pipeline",
    "measure": "rote.measurement",
    "plan": "rote.plans",
    "prompts": "rote.grafting",
    "read": "rote.data",
    "report": "rote.lab.report",
    "reproduce": "rote.lab.entries",
    "sweep": "rote.measurement",
    "ungraft": "rote.grafting",
    "verify": "rote.pipeline",
    "zoo": "rote.exhibits",
}

__all__ = ["__version__", *_HOME]  # noqa: PLE0604  (the keys are names)


def __getattr__(name: str) -> Any:
    if name in _HOME:
        return getattr(importlib.import_module(_HOME[name]), name)
    if name[:1].isupper():
        # The record of a construction that was added since, by a file or by `register`.
        from rote import constructions

        for one in constructions.registry().values():
            if one.Options.__name__ == name:
                return one.Options
    raise AttributeError(f"module 'rote' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
