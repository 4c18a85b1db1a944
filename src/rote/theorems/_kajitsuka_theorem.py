"""Bound and plan of the next-token and the sequence-to-sequence theorem, which differ only in their network."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from rote.config import Architecture, bits_of
from rote.theorems._base import Bound, Condition, Demand, NoPlan, Plan, Setting, condition
from rote.theorems._builder import Builder
from rote.theorems._kajitsuka import TransformerNet, largest

__all__ = ["BitExtraction"]

Data = TypeVar("Data")

SEARCH_LIMIT = 10**12


def _bags(vocab: int, context: int, enough: int) -> int:
    """Multisets of so many tokens, (N + S - 1 choose S); counting stops once there are enough."""
    found, large = 1, max(context, vocab - 1)
    for i in range(1, min(context, vocab - 1) + 1):
        found = found * (large + i) // i
        if found >= enough:
            break
    return found


class BitExtraction(Builder[Data]):
    """Bound and plan of a bit-extraction transformer.

    A shape holds T facts if the explicit network for any T facts has no more layers than n_layers and is no wider than
    d_mlp. Weights are exact dyadic numbers, so a fixed number format only rules a network out when not even all weights
    of the shape together have the bits.
    """

    kind = "lower"
    native = "exact"

    network: Callable[..., TransformerNet | None]
    labels_per_fact: Callable[[int], int]
    bag_note: str

    def _shallow(self, arch: Architecture, n_facts: int) -> TransformerNet | None:
        net = type(self).network(n_facts, arch.context, arch.vocab, arch.vocab, max_width=arch.d_mlp, shallow=True)
        return net if net is not None and net.depth <= arch.n_layers else None

    def bound(self, setting: Setting) -> Bound:
        arch = setting.arch
        # There are no more facts than bags of tokens.
        most = _bags(arch.vocab, arch.context, SEARCH_LIMIT)
        facts = largest(lambda t: t <= min(most, SEARCH_LIMIT) and self._shallow(arch, t) is not None)
        labels = type(self).labels_per_fact(arch.context)
        net = self._shallow(arch, facts) if facts else None
        if net is None:
            least = type(self).network(1, arch.context, arch.vocab, arch.vocab, shallow=True)
            need = "" if least is None else f"; one fact needs depth {least.depth} and width {least.width}"
            depth = condition("deep enough", False, f"n_layers = {arch.n_layers}, d_mlp = {arch.d_mlp}{need}")
            return self.make(
                setting,
                facts=None,
                params=None,
                conditions=(depth, *self._data(setting)),
                formula=f"depth(T) <= n_layers = {arch.n_layers} and width(T) <= d_mlp = {arch.d_mlp} for no T >= 1",
                counts="non-zero weights of the explicit network",
                bits_per_fact=labels * setting.bits_per_fact,
            )
        return self.make(
            setting,
            facts=facts,
            params=net.weights,
            conditions=(
                condition(
                    "deep enough", True, f"depth {net.depth} of {arch.n_layers}, width {net.width} of {arch.d_mlp}"
                ),
                self._precision(setting, net, facts * labels),
                *self._data(setting),
            ),
            formula=(
                f"largest T with depth(T) = {net.depth} <= {arch.n_layers} and width(T) = {net.width} <= {arch.d_mlp}"
                f": T = {facts:,} in {net.weights:,} non-zero weights of at most {net.max_bits} bits"
            ),
            counts="non-zero weights of the explicit network",
            bits_per_fact=labels * setting.bits_per_fact,
        )

    @staticmethod
    def _precision(setting: Setting, net: TransformerNet, n_labels: int) -> Condition:
        name, bits = "exact arithmetic", bits_of(setting.dtype)
        if bits is None:
            return condition(name, True, f"exact weights of at most {net.max_bits} bits")
        if n_labels * setting.bits_per_fact > setting.arch.params() * bits:
            return condition(name, False, f"so many labels do not fit into all weights of the shape at {setting.dtype}")
        return condition(
            name, None, f"weights of {net.max_bits} bits: holds in exact arithmetic, not as {setting.dtype}"
        )

    def _data(self, setting: Setting) -> tuple[Condition, ...]:
        return (
            condition("separated tokens", True, "token ids are whole numbers, at least 1 apart"),
            condition(
                "distinct up to order",
                False if setting.shared_context else None,
                "all contexts are one" if setting.shared_context else f"{self.bag_note}; depends on the data",
            ),
        )

    def plan(self, demand: Demand) -> Plan | NoPlan:
        bags = _bags(demand.vocab, demand.context, demand.n_facts)
        bags = min(bags, demand.distinct_bags or bags)
        if demand.n_facts > bags:
            return NoPlan(
                self.key, f"it sums tokens, so order does not count: the {demand.n_facts:,} contexts are {bags:,} bags"
            )
        net = type(self).network(demand.n_facts, demand.context, demand.vocab, demand.vocab)
        if net is None:
            return NoPlan(self.key, "no network found")
        if demand.d_model is not None and demand.d_model < net.width:
            narrow = type(self).network(
                demand.n_facts, demand.context, demand.vocab, demand.vocab, max_width=demand.d_model
            )
            if narrow is None:
                return NoPlan(self.key, f"d_model = {demand.d_model} is narrower than the network can be (8)")
            net = narrow
        arch = Architecture(
            n_heads=demand.n_heads or 1,
            d_model=demand.d_model or net.width,
            d_head=1,
            context=demand.context,
            vocab=demand.vocab,
            n_layers=net.depth,
            d_mlp=net.width,
        )
        return Plan(
            construction=self.key,
            architecture=arch,
            params=net.weights,
            bytes=-(-net.total_bits // 8),
            facts=demand.n_facts,
            note=f"exact weights of up to {net.max_bits} bits; contexts must differ by more than order",
            dtype="exact",
            max_bits=net.max_bits,
            counts="non-zero weights of the explicit network",
        )
