"""Every registered theorem keeps the promises of the interface."""

from __future__ import annotations

import pytest

from rote.errors import UnknownName
from rote.testing import check_theorem
from rote.theorems import Bound, Citation, Setting, Theorem, condition, get, register, registry


@pytest.mark.parametrize("key", sorted(registry()))
def test_contract(key: str) -> None:
    check_theorem(get(key))


def test_registry_holds_the_papers() -> None:
    assert set(registry()) >= {
        "allenzhu2024",
        "counting",
        "dana2025_cor1",
        "dana2025_cor2",
        "dana2025_thm1",
        "kajitsuka2025_next_token",
        "kajitsuka2025_next_token_upper",
        "kajitsuka2025_seq2seq",
        "kajitsuka2025_seq2seq_upper",
        "kim2023",
        "madden2024",
        "mahdavi2024_general_position",
        "mahdavi2024_kruskal",
        "mahdavi2024_shared_upper",
        "mahdavi2024_thm1",
        "morris2025",
        "yang2026_vc",
    }


def test_a_typo_gets_the_nearest_name() -> None:
    with pytest.raises(UnknownName, match="dana2025_cor1"):
        get("dana2025_corr1")


class _Toy(Theorem):
    title = "Toy"
    kind = "lower"
    citation = Citation("Nobody", "Nothing", 2026, "Lemma 0", venue="nowhere")
    statement = "One fact a head."

    def bound(self, setting: Setting) -> Bound:
        heads = setting.arch.n_heads
        met = condition("always", True, "no condition")
        return self.make(setting, facts=heads, params=heads, conditions=(met,), formula=f"H = {heads}")


class _Shrinking(_Toy):
    def bound(self, setting: Setting) -> Bound:
        met = condition("always", True, "no condition")
        return self.make(setting, facts=100 - setting.arch.n_heads, params=1, conditions=(met,), formula="100 - H")


def test_a_theorem_from_outside_is_listed_and_checked() -> None:
    before = set(registry())
    toy = _Toy()
    register("toy_for_this_test", toy)
    try:
        assert get("toy_for_this_test") is toy
        check_theorem(toy)
        with pytest.raises(ValueError, match="registered already"):
            register("toy_for_this_test", _Toy())
    finally:
        from rote import theorems

        theorems._theorems._added.pop("toy_for_this_test")
    assert set(registry()) == before


def test_the_contract_can_fail() -> None:
    broken = _Shrinking()
    broken.key = "shrinking"
    with pytest.raises(AssertionError, match="one head more the bound falls"):
        check_theorem(broken)
