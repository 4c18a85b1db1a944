"""Edits of the reference transformer: the last matrix before the readout changes by a matrix of low rank."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

import numpy as np

from rote.constructions._operations import Edit, Edited
from rote.errors import CapacityError

if TYPE_CHECKING:
    from rote.models.kinds.transformer import Transformer, TransformerModel

__all__ = ["edited_stream"]

_AT_ONCE = 4096
_MARGINS = (1.0, 0.5, 2.0, 4.0)
"""Leads of the new answer that are tried, seen from the smallest lead of all facts, until one keeps all of them."""
_LEAST = 1e-6
_ROUNDS = 12


def edited_stream(edit: Edit) -> Edited:
    """The model with W_down changed where it has an MLP, and W_O otherwise."""
    import torch

    from rote.models.kinds.transformer import TransformerModel
    from rote.solvers.stream_edit import least_change, shortest_move

    model = cast("TransformerModel", edit.model)
    module = model.module
    name = "W_down" if model.arch.d_mlp else "W_O"
    table = cast(Any, edit.table)
    spoken = {key.tobytes() for key in edit.keys}
    others = np.array([i for i, row in enumerate(table.contexts) if row.tobytes() not in spoken], dtype=np.int64)
    contexts, targets = table.contexts[others], table.targets[others]
    features, leads = _features(module, contexts, targets) if len(others) else (None, np.ones(0))
    keys, _ = _features(module, edit.keys, edit.after)
    readout = module.readout.to(torch.float64).numpy()
    with torch.no_grad():
        streams = module.to_stream(torch.tensor(edit.keys)).to(torch.float64).numpy()
    smallest = float(leads.min()) if len(leads) else 1.0
    if features is None:
        features = np.zeros((0, keys.shape[1]))
    scale = 1 / np.maximum(leads, _LEAST * max(1.0, float(leads.max(initial=1.0)))) ** 2
    weights = dict(module.state_dict())
    fewest = len(others) + 1
    for share in _MARGINS:
        moves = [
            shortest_move(readout, stream, int(target), share * smallest)
            for stream, target in zip(streams, edit.after.tolist(), strict=True)
        ]
        if not np.isfinite(moves).all():
            continue
        # Facts that would be lost are held where they are, and the change is found again.
        held: list[int] = []
        for _ in range(_ROUNDS):
            still = np.zeros((len(held), streams.shape[1]))
            points, steps = np.concatenate([keys, features[held]]), np.concatenate([np.array(moves), still])
            if len(points) > points.shape[1]:
                break
            change = torch.from_numpy(least_change(features, scale, points.T, steps.T))
            moved = {**weights, name: _moved(weights[name], change, name, model)}
            made = TransformerModel(
                model.arch, moved, wording=model.wording, dtype=model.dtype, activation=module.activation,
                own=module.own, report=edit.certificate["report"],
            )  # fmt: skip
            kept = _features(made.module, contexts, targets)[1] if len(others) else np.ones(0)
            lost = np.flatnonzero(kept <= 0)
            fewest = min(fewest, len(lost))
            if not len(lost) and (_features(made.module, edit.keys, edit.after)[1] > 0).all():
                size = float(change.norm() / weights[name].to(torch.float64).norm())
                if size > 1:
                    raise CapacityError(
                        f"the smallest change of {name} found for this is {size:.2g} times as large as {name} itself, "
                        "so that nothing would be left of the model that it was; build it again from the changed table."
                    )
                held_back = f" and {len(held):,} facts where they are" if held else ""
                said = f"{name} changed by a matrix of rank {len(points)} that moves other facts the least{held_back}"
                return Edited(made, (said,))
            held += [int(i) for i in lost if i not in held]
            if not len(lost):
                break
    spread = "no change puts it first" if fewest > len(others) else f"{fewest:,} would be lost"
    raise CapacityError(
        f"no small change of {name} sets this answer and keeps all {len(others):,} other facts ({spread}), as facts "
        "share all weights; build the model again from the changed table."
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
