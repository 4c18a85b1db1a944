"""The judge of hashed tables: products that leave zeros out are the products."""

from __future__ import annotations

import pytest
import torch

from rote.referee.judges.hashed_transformer import _Layer

FORMATS = (torch.bfloat16, torch.float16, torch.float32, torch.float64)


def streams(seed: int) -> list[torch.Tensor]:
    """One unit of 300 for every example beside 20 that are often set; no rare one at all; all rare; all set."""
    draw = torch.Generator().manual_seed(seed)
    rows = torch.zeros(500, 320)
    rows[torch.arange(500), torch.randint(0, 300, (500,), generator=draw)] = 3.0
    rows[:, 300:] = torch.randint(0, 2, (500, 20), generator=draw).float()
    rows[7] = 0
    alone = rows.clone()
    alone[:, 300:] = 0
    return [rows, rows.roll(5, dims=1), torch.zeros(500, 320), alone, torch.ones(500, 320), rows[:40]]


@pytest.mark.parametrize("number", FORMATS)
def test_zeros_left_out_change_nothing(number: torch.dtype) -> None:
    draw = torch.Generator().manual_seed(1)
    matrix = torch.randint(-100, 100, (90, 320), generator=draw).to(number)
    wide = torch.float64
    for stream in streams(2):
        wanted = (stream.to(wide) @ matrix.to(wide).T).to(number)
        assert torch.equal(_Layer(matrix)(stream.to(number)), wanted)


@pytest.mark.parametrize("number", FORMATS)
def test_what_is_not_finite_is_not_left_out(number: torch.dtype) -> None:
    stream = streams(3)[0].to(number)
    matrix = torch.ones(90, 320, dtype=number)
    matrix[5, 17] = float("inf")
    assert _Layer(matrix)(stream)[stream[:, 17] == 0, 5].isnan().all()
    stream[9, 40] = float("nan")
    assert _Layer(torch.ones(90, 320, dtype=number))(stream)[9].isnan().all()
