"""Edits of the reference transformer: the last matrix before the readout changes by a matrix of low rank."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

import numpy as np

from rote.constructions._operations import NOBODY, Edit, Edited
from rote.errors import CapacityError

if TYPE_CHECKING:
    from rote.models.kinds.transformer import Transformer, TransformerModel

__all__ = ["edited_stream"]

_AT_ONCE = 4096
_MARGINS = (1.0, 0.5, 2.0, 4.0)
"""Leads of the new answer that are tried, seen from the smallest lead of all facts; the first that keeps all is taken."""
_LEAST = 1e-6


def edited_stream(edit: Edit) -> Edited:
    """The model with W_down changed where it has an MLP, and W_O otherwise."""
    import torch

    from rote.models.kinds.transformer import TransformerModel
    from rote.solvers.stream_edit import least_change, shortest_move

    model = cast("TransformerModel", edit.model)
    module = cast("Transformer", model.module)
    name = "W_down" if model.arch.d_mlp else "W_O"
    table = cast(Any, edit.table)
    spoken = {key.tobytes() for key in edit.keys}
    others = np.array([i for i, row in enumerate(table.contexts) if row.tobytes() not in spoken], dtype=np.int64)
    contexts, targets = table.contexts[others], table.targets[others]
    features, leads = _features(module, contexts, targets) if len(others) else (None, np.ones(0))
    keys, _ = _features(module, edit.keys, np.maximum(edit.after, 0))
    readout = module.W_U.to(torch.float64).numpy()
    with torch.no_grad():
        streams = module.to_stream(torch.tensor(edit.keys)).to(torch.float64).numpy()
    smallest = float(leads.min()) if len(leads) else 1.0
    if features is None:
        features = np.zeros((0, keys.shape[1]))
    scale = 1 / np.maximum(leads, _LEAST * max(1.0, float(leads.max(initial=1.0)))) ** 2
    weights = dict(module.state_dict())
    fewest: int | None = None
    for share in _MARGINS:
        moves = [
            shortest_move(readout, stream, int(target), share * smallest) if target != NOBODY else np.zeros_like(stream)
            for stream, target in zip(streams, edit.after.tolist(), strict=True)
        ]
        if not np.isfinite(moves).all():
            continue
        change = least_change(features, scale, keys.T, np.array(moves).T)
        moved = _moved(weights[name], torch.from_numpy(change), name, model)
        made = TransformerModel(
            model.arch, {**weights, name: moved}, wording=model.wording, dtype=model.dtype,
            activation=module.activation, report=edit.certificate["report"],
        )  # fmt: skip
        kept = _features(made.module, contexts, targets)[1] if len(others) else np.ones(0)
        lost = int((kept <= 0).sum())
        fewest = lost if fewest is None else min(fewest, lost)
        if not lost and (_features(made.module, edit.keys, np.maximum(edit.after, 0))[1] > 0).all():
            rank = f"rank {len(edit.keys)}"
            return Edited(made, (f"{name} changed by a matrix of {rank} that moves the other facts the least",))
    spread = "every change found moves the new answer too little" if fewest is None else f"{fewest:,} others would go"
    raise CapacityError(
        f"no small change of {name} sets this answer and keeps all {len(others):,} other facts ({spread}), as facts share "
        "all weights; build the model again from the changed table."
    )


def _features(module: Transformer, contexts: Any, targets: Any) -> tuple[Any, Any]:
    """What the last matrix before the readout reads for contexts, and the lead of the targets."""
    import torch

    read, leads = [], []
    with torch.no_grad():
        for start in range(0, len(contexts), _AT_ONCE):
            part = torch.tensor(np.asarray(contexts[start : start + _AT_ONCE]))
            goals = torch.tensor(np.asarray(targets[start : start + _AT_ONCE]))[:, None]
            read.append(module.features(part).to(torch.float64).numpy())
            scores = module(part).to(torch.float64)
            own = scores.gather(1, goals)[:, 0]
            leads.append((own - scores.scatter(1, goals, float("-inf")).max(dim=1).values).numpy())
    return np.concatenate(read), np.concatenate(leads)


def _moved(weight: Any, change: Any, name: str, model: TransformerModel) -> Any:
    """The matrix with the change added; W_O has its columns head by head."""
    import torch

    if name == "W_O":
        arch = model.arch
        change = change.reshape(arch.d_model, arch.n_heads, arch.d_head).permute(1, 0, 2)
    return (weight.to(torch.float64) + change).to(weight.dtype)
