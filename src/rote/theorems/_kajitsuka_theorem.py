"""The bound of the next-token and the sequence-to-sequence theorem, which differ only in their network."""

from __future__ import annotations

from collections.abc import Callable

from rote.config import Architecture, bits_of
from rote.theorems import Bound, Condition, Setting, Theorem, condition
from rote.theorems._kajitsuka import TransformerNet, largest

__all__ = ["BitExtraction", "count_bags"]

SEARCH_LIMIT = 10**12


def count_bags(vocab: int, context: int, enough: int) -> int:
    """Multisets of so many tokens, (N + S - 1 choose S); counting stops once there are enough."""
    count, large = 1, max(context, vocab - 1)
    for i in range(1, min(context, vocab - 1) + 1):
        count = count * (large + i) // i
        if count >= enough:
            break
    return count


class BitExtraction(Theorem):
    """The bound of a bit-extraction transformer.

    A shape holds T facts if the explicit network for any T facts has no more layers than n_layers and is no wider than
    d_mlp. Weights are exact dyadic numbers, so a fixed number format only rules a network out when not even all weights
    of the shape together have the bits.
    """

    kind = "lower"

    network: Callable[..., TransformerNet | None]
    labels_per_fact: Callable[[int], int]
    bag_note: str

    def shallow(self, arch: Architecture, n_facts: int) -> TransformerNet | None:
        """The shallowest network for so many facts, if it fits into the shape."""
        net = type(self).network(n_facts, arch.context, arch.vocab, arch.vocab, max_width=arch.d_mlp, shallow=True)
        return net if net is not None and net.depth <= arch.n_layers else None

    def searches(self, arch: Architecture) -> bool:
        """No network is shallower or narrower than this."""
        return arch.n_layers >= 30 and arch.d_mlp >= 7

    def bound(self, setting: Setting) -> Bound:
        arch = setting.arch
        # There are no more facts than bags of tokens.
        most = count_bags(arch.vocab, arch.context, SEARCH_LIMIT)
        facts = largest(lambda t: t <= min(most, SEARCH_LIMIT) and self.shallow(arch, t) is not None)
        labels = type(self).labels_per_fact(arch.context)
        net = self.shallow(arch, facts) if facts else None
        if net is None:
            least = type(self).network(1, arch.context, arch.vocab, arch.vocab, shallow=True)
            need = "" if least is None else f"; one fact needs depth {least.depth} and width {least.width}"
            depth = condition("deep enough", False, f"n_layers = {arch.n_layers}, d_mlp = {arch.d_mlp}{need}")
            return self.make(
                setting,
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
