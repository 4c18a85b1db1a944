"""States of the original model, streamed in batches and kept on disk, so that an interrupted graft goes on.

A state is what enters the final norm at one position. The added layer comes last and its attention adds nothing, so
the states of the original are the states of the grafted model, in free generation as well as here.

Sequences of equal length share a batch, without padding; what a batch has in common at the start runs once.
"""

from __future__ import annotations

import copy
import hashlib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from rote.data._atomic import write_atomically
from rote.data.encoding import batches, common_prefix

__all__ = ["Advance", "Cache", "Prefixes", "collect_states"]

Ids = Sequence[int]
Advance = Callable[[int], None]


class Cache:
    """A directory of tensors by content key."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        directory.mkdir(parents=True, exist_ok=True)

    def get(self, key: str) -> Tensor | None:
        from safetensors import SafetensorError
        from safetensors.torch import load_file

        path = self.directory / f"{key}.safetensors"
        if not path.is_file():
            return None
        try:
            return load_file(path)["states"]
        except (SafetensorError, KeyError, OSError):
            return None

    def put(self, key: str, states: Tensor) -> None:
        from safetensors.torch import save_file

        path = self.directory / f"{key}.safetensors"
        write_atomically(path, lambda part: save_file({"states": states.contiguous()}, part))


class Prefixes:
    """Key-value caches of common beginnings; the last one is kept."""

    def __init__(self, model: Any) -> None:
        self.model = model
        self.ids: tuple[int, ...] = ()
        self.cache: Any = None

    def __call__(self, ids: tuple[int, ...], count: int) -> Any:
        """A cache that holds `ids` for `count` sequences, or None for no ids."""
        if not ids:
            return None
        if ids != self.ids:
            self.cache = self.model.model(input_ids=torch.tensor([ids]), use_cache=True).past_key_values
            self.ids = ids
        copies = copy.deepcopy(self.cache)
        copies.batch_repeat_interleave(count)
        return copies


@torch.no_grad()
def collect_states(
    model: Any,
    sequences: Sequence[Ids],
    starts: Sequence[int],
    *,
    cache: Cache,
    key: str,
    advance: Advance = lambda _: None,
) -> Tensor:
    """States (float32) of every sequence from its start on, one sequence after the other."""
    caught: list[Tensor] = []
    hook = model.model.norm.register_forward_pre_hook(lambda _, inputs: caught.append(inputs[0]))
    offsets = [0]
    for ids, start in zip(sequences, starts, strict=True):
        offsets.append(offsets[-1] + len(ids) - start)
    states = torch.empty(offsets[-1], model.config.hidden_size)
    prefixes = Prefixes(model)
    try:
        shapes = [(len(ids), start) for ids, start in zip(sequences, starts, strict=True)]
        for batch in batches(sequences, shapes):
            length, start = shapes[batch[0]]
            rows = [tuple(sequences[i]) for i in batch]
            name = hashlib.sha256(repr((key, start, rows)).encode()).hexdigest()[:32]
            part = cache.get(name)
            if part is None or part.shape != (len(batch), length - start, states.shape[1]):
                shared = common_prefix(rows, start) if len(rows) > 1 else ()
                past = prefixes(shared, len(rows))
                caught.clear()
                rest = torch.tensor([row[len(shared) :] for row in rows])
                model.model(input_ids=rest, past_key_values=past, use_cache=past is not None)
                part = caught[-1][:, start - len(shared) :].float().clone()
                cache.put(name, part)
            for k, i in enumerate(batch):
                states[offsets[i] : offsets[i + 1]] = part[k]
            advance(len(batch))
    finally:
        hook.remove()
    return states
