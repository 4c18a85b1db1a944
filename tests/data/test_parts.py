"""Facts in portions, and how far along one is."""

from __future__ import annotations

import numpy as np

from rote.data.outputs import Outputs


def told(n_facts: int, work: list[int] | None, *, scattered: bool = False) -> tuple[list[tuple[int, int]], list[int]]:
    outputs, done = Outputs(), list[int]()
    outputs.rows_at_once, outputs.advance = 2, done.append
    weights = None if work is None else np.array(work)
    parts = [(part.start, part.stop) for part in outputs.parts(n_facts, scattered=scattered, work=weights)]
    return parts, done


def test_rows_count_alike_unless_their_work_is_known() -> None:
    assert told(5, None) == ([(0, 2), (2, 4), (4, 5)], [2, 4, 5])
    # Twelve tokens in all: after two of them a sixth of the facts counts as done, whatever their number.
    assert told(6, [1, 1, 2, 2, 3, 3]) == ([(0, 2), (2, 4), (4, 6)], [1, 3, 6])


def test_all_of_the_work_is_all_of_the_facts_in_any_order() -> None:
    rng = np.random.default_rng(0)
    parts, done = told(41, rng.integers(1, 20, size=41).tolist(), scattered=True)
    assert sorted(parts) == [(start, min(41, start + 2)) for start in range(0, 41, 2)]
    assert done == sorted(done) and done[-1] == 41
