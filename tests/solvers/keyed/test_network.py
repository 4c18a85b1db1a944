"""Steps of answers at which it has to be known how long ago the question was asked."""

from __future__ import annotations

from rote.solvers.keyed.network import exact_steps


def test_steps_behind_tokens_that_come_twice() -> None:
    assert exact_steps([(1, 2, 3, 0)]) == ()
    assert exact_steps([(1, 2, 1, 3, 0)]) == (1, 3)


def test_steps_behind_tokens_that_prompts_end_with() -> None:
    """A name that ends in "is" must not end where a question does that ends in "is"."""
    answers = [(5, 6, 7, 0), (5, 7, 0), (8, 9, 7, 0)]
    assert exact_steps(answers, {7}) == (2, 3)
    assert exact_steps(answers, {7}, most=1) == (3,)
    assert exact_steps([(1, 2, 1, 3, 0), *answers], {7}, most=2) == (1, 3)
