"""Hashed tables in a stock decoder: plans, schedules, and the units that turn words into labels."""

from __future__ import annotations

import itertools
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from rote.solvers.hashed.fetching import fetching
from rote.solvers.hashed.layout import Layout
from rote.solvers.hashed.rotary import Turn, gaze, narrowest_turns, sharpness
from rote.solvers.hashed.stock_layout import constants, stock_layouts
from rote.solvers.hashed.stock_tail import ONE, Program, filled, tail_program

FORMATS = ("bfloat16", "float16", "float32")


def layout_of(bits: int, groups: int, blocks: int, digits: int, word_bits: int) -> Layout:
    return Layout(
        keys=100, context=3, vocab=16, classes=1 << bits, word_bits=word_bits, unknown=0, positions=3, code_bits=8,
        head_bits=8, mix="bits", row_bits=6, rows=10, capacity=10, groups=(4,) * groups, blocks=blocks, digits=digits,
        alike=True,
    )  # fmt: skip


def run(program: Program, d_mlp: int, values: dict[str, float], bits: int) -> dict[str, float]:
    """Layer by layer as a network does it, every sum of a layer rounded to so many significant bits."""
    values = {**dict.fromkeys(program.channels, 0.0), **values}

    def rounded(value: float) -> float:
        mantissa, exponent = np.frexp(value)
        return float(np.ldexp(np.rint(mantissa * 2.0**bits) / 2.0**bits, exponent))

    for stage in program.stages:
        units = list(filled(stage, d_mlp))
        for start in range(0, len(units), d_mlp):
            change: dict[str, float] = {}
            for unit in units[start : start + d_mlp]:
                total = sum(weight * (1.0 if name == ONE else values[name]) for name, weight in unit.reads.items())
                for name, weight in unit.writes.items():
                    change[name] = change.get(name, 0.0) + weight * rounded(max(0.0, total))
            for name, by in change.items():
                values[name] = rounded(values[name] + rounded(by))
    return values


@pytest.mark.parametrize("d_mlp", [8, 17, 40, 100])
@pytest.mark.parametrize(
    ("bits", "groups", "blocks", "digits", "word_bits", "significant"),
    [(8, 4, 1, 1, 8, 8), (8, 5, 1, 1, 8, 8), (1, 3, 1, 8, 8, 8), (4, 2, 1, 2, 8, 8), (3, 4, 1, 1, 3, 8),
     (12, 4, 2, 1, 6, 8), (17, 7, 3, 1, 6, 8), (8, 4, 1, 2, 16, 24), (1, 6, 1, 20, 20, 24), (16, 3, 1, 1, 16, 24)],
)  # fmt: skip
def test_tails_read_labels_off_words(
    bits: int, groups: int, blocks: int, digits: int, word_bits: int, significant: int, d_mlp: int
) -> None:
    layout = layout_of(bits, groups, blocks, digits, word_bits)
    program = tail_program(layout, d_mlp)
    assert all(len(group) <= d_mlp for stage in program.stages for group in stage)
    rng = np.random.default_rng(bits + d_mlp)
    for _ in range(30):
        values: dict[str, float] = {"score": -3.0} | {f"y{i}": 2.0 for i in range(len(layout.parts))}
        sums = []
        for block in range(blocks):
            whole = 1 << layout.used_bits(block)
            words = rng.integers(0, whole, groups)
            sums.append(int(words.sum() % whole))
            for i in range(groups - groups // 2):
                pair = words[i] + words[i + groups // 2] - whole if i < groups // 2 else words[-1]
                values[f"u{block}_{i}"] = float(pair)
        choice, starts = int(rng.integers(256)), np.sort(rng.integers(0, 257, max(0, digits - 1)))
        if not layout.thresholds:
            starts = np.array([-(-j * 256 // digits) for j in range(1, digits)])
        values |= {"choice0": float(choice)} | {f"t{j}": float(start) for j, start in enumerate(starts)}
        digit = int(np.searchsorted(starts, choice, side="right"))
        symbol = 0
        for segment in layout.segments:
            if segment.digit == digit:
                piece = sums[segment.block] >> segment.lo & (1 << segment.hi - segment.lo) - 1
                symbol |= piece << segment.shift
        after = run(program, d_mlp, values, significant)
        read = sum(int(after[f"y{i}"]) << sum(layout.parts[:i]) for i in range(len(layout.parts)))
        assert read == symbol
        assert after["score"] == 1.0


@pytest.mark.parametrize("dtype", FORMATS)
def test_constants_make_the_root_mean_square_a_power_of_two(dtype: str) -> None:
    for width in range(8, 700):
        rms, values = constants(width, dtype)
        assert len(values) >= 2
        assert sum(value**2 for value in values) == width * rms**2
        assert all(value <= (2.0**15 if dtype == "float16" else 2.0**60) for value in values)


@pytest.mark.parametrize("dtype", FORMATS)
@pytest.mark.parametrize("context", [1, 2, 5, 12, 40, 300])
def test_heads_see_one_place(context: int, dtype: str) -> None:
    turns = narrowest_turns(context, dtype)
    assert turns
    for turn in turns:
        view = gaze(context, context, turn, dtype)
        assert view.seen.tolist() == list(range(context))[::-1]
        assert sharpness([context], context, turn, dtype) is not None


@pytest.mark.parametrize("context", [20, 30, 40])
def test_prompts_of_every_length_are_read_in_bfloat16(context: int) -> None:
    turn = narrowest_turns(context, "bfloat16")[0]
    # A start token makes the longest one longer.
    assert sharpness(range(1, context + 2), context, turn, "bfloat16") is not None


def test_heads_that_see_two_places_alike_are_refused() -> None:
    assert sharpness([60], 60, Turn(2), "bfloat16") is None


@pytest.mark.parametrize("dtype", FORMATS)
@pytest.mark.parametrize(
    "sizes", [(500, 4, 40, 40, 40), (3000, 3, 60, 90, 2), (50, 1, 50, 60, 7), (20_000, 6, 256, 256, 256)]
)
def test_plans_grow_and_the_last_has_a_row_for_every_key(sizes: tuple[int, int, int, int, int], dtype: str) -> None:
    plans = list(itertools.islice(stock_layouts(*sizes, dtype), 30))
    assert [one.layout.mix == "copies" for one in plans] == [False] * (len(plans) - 1) + [True]
    assert plans[-1].layout.rows == sizes[0]
    for one in plans:
        layer = 2 * one.d_model * one.d_mlp + 2 * one.d_model + 2 * one.turn.d_head * one.d_model * (one.n_heads + 1)
        assert one.params == one.d_model * (one.vocab + 1) + one.n_layers * layer
        assert one.d_model % one.n_heads == 0
        assert len(constants(one.d_model, dtype)[1]) + len(one.channels) <= one.d_model
        assert len(set(one.channels)) == len(one.channels)


def test_channels_are_taken_over_only_when_they_have_done_their_work() -> None:
    plan = next(stock_layouts(100_000, 4, 256, 256, 256, "bfloat16"))
    schedule = fetching(plan.layout, plan.turn.d_head, plan.d_mlp)
    moved = [i for i, one in enumerate(schedule.replaced) if one is not None]
    assert moved
    rows_end = plan.stages[1][0] + -(-plan.layout.rows // plan.d_mlp)
    for i in moved:
        assert schedule.layers[i] >= rows_end
        assert schedule.replaced[i] not in moved
    assert len(set(schedule.layers)) == len(schedule.layers)


def test_threads_may_plan_the_same_table_side_by_side() -> None:
    sizes = (3_000, 3, 41, 43, 7, "float32")
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(lambda _: [one.params for one in itertools.islice(stock_layouts(*sizes), 3)], range(8)))
    assert found == [found[0]] * 8
