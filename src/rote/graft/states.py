"""States of the original model, streamed in batches and kept on disk, so that an interrupted graft goes on.

A state is what enters the final norm at one position. The added layer comes last and its attention adds nothing, so
the states of the original are the states of the grafted model, in free generation as well as here.

Sequences of equal length share a batch, without padding; what a batch has in common at the start runs once.
"""

from __future__ import annotations

import copy
import hashlib
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from rote.data._atomic import write_atomically

__all__ = ["Advance", "Cache", "Prefixes", "batches", "collect_states"]

Ids = Sequence[int]
Advance = Callable[[int], None]
_TOKENS = 4096


class Cache:
    """A directory of tensors by content key; None keeps nothing."""

    def __init__(self, directory: Path | None) -> None:
        self.directory = directory
        if directory is not None:
            directory.mkdir(parents=True, exist_ok=True)

    def get(self, key: str) -> Tensor | None:
        from safetensors import SafetensorError
        from safetensors.torch import load_file

        path = None if self.directory is None else self.directory / f"{key}.safetensors"
        if path is None or not path.is_file():
            return None
        try:
            return load_file(path)["states"]
        except (SafetensorError, KeyError, OSError):
            return None

    def put(self, key: str, states: Tensor) -> None:
        from safetensors.torch import save_file

        if self.directory is not None:
            write_atomically(
                self.directory / f"{key}.safetensors", lambda part: save_file({"states": states.contiguous()}, part)
            )


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
        made = copy.deepcopy(self.cache)
        made.batch_repeat_interleave(count)
        return made


def common_prefix(sequences: Sequence[Ids], limit: int) -> tuple[int, ...]:
    """The longest common beginning of at most `limit` tokens."""
    ordered = [tuple(ids) for ids in sequences]
    low, high = min(ordered), max(ordered)
    length = 0
    while length < min(limit, len(low), len(high)) and low[length] == high[length]:
        length += 1
    return tuple(low[:length])


def batches(sequences: Sequence[Ids], keys: Sequence[Any], tokens: int = _TOKENS) -> Iterator[list[int]]:
    """Indices in batches of equal keys (such as lengths), neighbours alike; about `tokens` tokens a batch."""
    order = sorted(range(len(sequences)), key=lambda i: (keys[i], tuple(sequences[i])))
    batch: list[int] = []
    for i in order:
        if batch and (keys[i] != keys[batch[0]] or len(batch) * len(sequences[i]) >= tokens):
            yield batch
            batch = []
        batch.append(i)
    if batch:
        yield batch


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
    found = torch.empty(offsets[-1], model.config.hidden_size)
    prefixes = Prefixes(model)
    try:
        shapes = [(len(ids), start) for ids, start in zip(sequences, starts, strict=True)]
        for batch in batches(sequences, shapes):
            length, start = shapes[batch[0]]
            rows = [tuple(sequences[i]) for i in batch]
            name = hashlib.sha256(repr((key, start, rows)).encode()).hexdigest()[:32]
            part = cache.get(name)
            if part is None or part.shape != (len(batch), length - start, found.shape[1]):
                shared = common_prefix(rows, start) if len(rows) > 1 else ()
                past = prefixes(shared, len(rows))
                caught.clear()
                rest = torch.tensor([row[len(shared) :] for row in rows])
                model.model(input_ids=rest, past_key_values=past, use_cache=past is not None)
                part = caught[-1][:, start - len(shared) :].float().clone()
                cache.put(name, part)
            for k, i in enumerate(batch):
                found[offsets[i] : offsets[i + 1]] = part[k]
            advance(len(batch))
    finally:
        hook.remove()
    return found
