"""What is added to say a token: it wins, by as much as is needed, and no more."""

from __future__ import annotations

import torch

from rote.solvers.keyed.directions import directions_of


def test_tokens_are_said_and_no_surer_than_needed() -> None:
    rng = torch.Generator().manual_seed(0)
    head = torch.randn(2_000, 64, generator=rng)
    head[7] = head[8] + 0.3 * torch.randn(64, generator=rng)  # two tokens that are nearly one
    norm = 1.0 + 0.1 * torch.randn(64, generator=rng)
    tokens = [3, 7, 8, 1_999]
    found = torch.tensor(directions_of(head, norm, tokens)).float()
    assert torch.allclose(found.pow(2).mean(1), torch.ones(4), atol=1e-4)
    logits = (found * norm) @ head.T
    likely = torch.log_softmax(logits, 1)
    own = likely[range(4), tokens]
    assert (logits.argmax(1) == torch.tensor(tokens)).all()
    assert (own.exp() > 0.989).all()
    # What the direction of a token's own row alone would cost any other token is several times as much.
    alone = (head[tokens] / head[tokens].pow(2).mean(1, keepdim=True).sqrt() * norm) @ head.T
    assert (-likely.median(1).values < -torch.log_softmax(alone, 1).median(1).values).all()
