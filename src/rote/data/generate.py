"""Made-up facts, drawn as in the papers. Each function takes its own generator, and no other randomness exists.

Tokens are named t0, t1, ... with as many digits as the last one needs, so that sorted order is id order.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from typing import Literal, get_args

import numpy as np

from rote.data._arrays import FloatArray, IntArray
from rote.data.conflicts import first_positions, row_codes
from rote.data.kinds.distributions import DistributionTable, check_share
from rote.data.kinds.facts import FactTable
from rote.data.kinds.vectors import VectorTable
from rote.data.vocabulary import Vocabulary
from rote.errors import UnknownName, UsageError

__all__ = [
    "Distribution",
    "bigram_facts",
    "check_distribution",
    "check_sharing",
    "lookup_distributions",
    "power_prior",
    "random_distributions",
    "random_facts",
    "random_sequences",
    "random_vectors",
]

Distribution = Literal["uniform", "gaussian"]
DISTRIBUTIONS: tuple[Distribution, ...] = get_args(Distribution)

_MAX_CELLS = 2**31
_MAX_TOKENS = 2**26


def random_facts(n_facts: int, context: int, vocab: int, *, rng: np.random.Generator) -> FactTable:
    """`n_facts` distinct contexts, uniform among all vocab**context of them, and uniform targets."""
    _check(n_facts=n_facts, context=context, vocab=vocab)
    _check_size(n_facts, context)
    possible = vocab**context if context * math.log2(vocab) < 64 else math.inf
    if n_facts > possible:
        raise UsageError(
            f"{n_facts} facts need as many distinct contexts, but {vocab} tokens in {context} places make only "
            f"{possible}; ask for fewer facts, more tokens or longer contexts."
        )
    if 2 * n_facts > possible:
        places = rng.permutation(vocab**context)[:n_facts]
        rows = places[:, None] // vocab ** np.arange(context - 1, -1, -1, dtype=np.int64) % vocab
    else:
        rows = _distinct(n_facts, lambda m: rng.integers(vocab, size=(m, context)), lambda new: row_codes(new, vocab))
    targets = rng.integers(vocab, size=n_facts)
    return FactTable(rows, targets, Vocabulary(_names("t", vocab)), None, f"random-{n_facts}x{context}-of-{vocab}")


def bigram_facts(vocab: int, *, rng: np.random.Generator) -> FactTable:
    """All vocab**2 pairs of tokens in order, each with one uniform target (Dana et al. 2025, experiments)."""
    _check(vocab=vocab)
    _check_size(vocab * vocab, 2)
    places = np.arange(vocab * vocab)
    rows = np.stack([places // vocab, places % vocab], axis=1)
    targets = rng.integers(vocab, size=len(rows))
    return FactTable(rows, targets, Vocabulary(_names("t", vocab)), None, f"bigrams-{vocab}")


def random_sequences(n_facts: int, context: int, vocab: int, n_classes: int, *, rng: np.random.Generator) -> FactTable:
    """Token sequences that stay distinct under any permutation, with labels (Kajitsuka, Sato 2025).

    Every collection of `context` tokens, repeats allowed, is equally likely, and so is every order of it. Labels are
    uniform, and are tokens of their own, y0, y1, ...: the vocabulary has vocab + n_classes tokens.
    """
    _check(n_facts=n_facts, context=context, vocab=vocab, n_classes=n_classes)
    _check_size(n_facts, context)
    # there are at least 2**k for k = min(context, vocab - 1)
    possible = math.comb(vocab + context - 1, context) if min(context, vocab - 1) < 64 else math.inf
    if n_facts > possible:
        raise UsageError(
            f"{n_facts} sequences need to be distinct up to permutation, but {vocab} tokens in {context} places make "
            f"only {possible} such sequences; ask for fewer, for more tokens or for longer contexts."
        )
    if 2 * n_facts > possible:
        every = itertools.chain.from_iterable(itertools.combinations_with_replacement(range(vocab), context))
        bags = np.fromiter(every, dtype=np.int64).reshape(-1, context)
        bags = bags[rng.permutation(len(bags))[:n_facts]]
    else:
        bags = _distinct(n_facts, lambda m: _bags(m, context, vocab, rng), lambda new: row_codes(new, vocab))
    rows = rng.permuted(bags, axis=1)
    targets = vocab + rng.integers(n_classes, size=n_facts)
    tokens = Vocabulary(_names("t", vocab) + _names("y", n_classes))
    return FactTable(rows, targets, tokens, None, f"sequences-{n_facts}x{context}-of-{vocab}")


def random_vectors(
    n_examples: int,
    context: int,
    d_model: int,
    *,
    rng: np.random.Generator,
    sharing: float | Literal["shared", "own"] = "own",
    distribution: Distribution = "uniform",
    n_classes: int | None = None,
) -> VectorTable:
    """Vectors with independent entries, uniform on [0, 1] or standard normal (Mahdavi et al. 2024, experiments).

    `sharing` is the share of context rows that all examples have in common: "own" is 0, "shared" is 1 and gives one
    n x d context; between them, the first round(sharing * context) rows are common. Labels are uniform over
    `n_classes`; without it, targets are real numbers from the same distribution.
    """
    _check(n_examples=n_examples, context=context, d_model=d_model)
    if n_classes is not None:
        _check(n_classes=n_classes)
    _check_size(n_examples * context, d_model)
    check_distribution(distribution)
    share = check_sharing(sharing)
    draw: Callable[..., FloatArray] = rng.random if distribution == "uniform" else rng.standard_normal
    n_common = round(share * context)
    common = draw((n_common, d_model))
    if n_common == context:
        contexts = common
    else:
        own = draw((n_examples, context - n_common, d_model))
        contexts = np.concatenate([np.broadcast_to(common, (n_examples, n_common, d_model)), own], axis=1)
    queries = draw((n_examples, d_model))
    targets: FloatArray | IntArray = draw(n_examples) if n_classes is None else rng.integers(n_classes, size=n_examples)
    return VectorTable(contexts, queries, targets, n_classes, f"vectors-{n_examples}x{context}x{d_model}")


def power_prior(n_contexts: int, alpha: float) -> FloatArray:
    """Prior k^-alpha of the k-th context; uniform for alpha = 0."""
    if not (np.isfinite(alpha) and 0 <= alpha <= 20):
        raise UsageError(f"alpha, the exponent of the prior, must lie between 0 and 20; got {alpha}.")
    shares = np.arange(1, n_contexts + 1, dtype=np.float64) ** -alpha
    prior: FloatArray = shares / shares.sum()
    return prior


def random_distributions(
    n_contexts: int, context: int, vocab: int, *, rng: np.random.Generator, alpha: float = 1.0, spread: float = 1.0
) -> DistributionTable:
    """Softmax of Gaussian logits of standard deviation `spread`, with a power-law prior."""
    if not (np.isfinite(spread) and 0 <= spread <= 50):
        raise UsageError(f"spread, the deviation of the logits, must lie between 0 and 50; got {spread}.")
    facts = random_facts(n_contexts, context, vocab, rng=rng)
    logits = spread * rng.standard_normal((n_contexts, facts.vocab))
    rows = np.exp(logits - logits.max(axis=1, keepdims=True))
    rows /= rows.sum(axis=1, keepdims=True)
    return DistributionTable(facts.contexts, power_prior(n_contexts, alpha), rows, facts.vocabulary, "random")


def lookup_distributions(
    n_contexts: int, context: int, vocab: int, *, rng: np.random.Generator, noise: float, alpha: float = 1.0
) -> DistributionTable:
    """A noisy look-up table: each context has one random token with probability 1 - noise; the rest is random."""
    check_share(noise, "noise")
    facts = random_facts(n_contexts, context, vocab, rng=rng)
    rest = rng.dirichlet(np.ones(facts.vocab - 1), size=n_contexts) if facts.vocab > 2 else np.ones((n_contexts, 1))
    rows = np.empty((n_contexts, facts.vocab))
    others = np.arange(facts.vocab)[None, :] != facts.targets[:, None]
    rows[others] = (noise * rest).reshape(-1)
    rows[~others] = 1 - noise
    return DistributionTable(facts.contexts, power_prior(n_contexts, alpha), rows, facts.vocabulary, "lookup")


def check_distribution(name: str) -> Distribution:
    """`name` as a distribution of vector entries, or an error that lists the known ones."""
    for distribution in DISTRIBUTIONS:
        if name == distribution:
            return distribution
    raise UnknownName("distribution", str(name), DISTRIBUTIONS)


def check_sharing(sharing: float | str) -> float:
    """The share of common context rows: "own" is 0, "shared" is 1, and numbers may also be given as text."""
    known = {"own": 0.0, "shared": 1.0}
    if isinstance(sharing, str) and sharing in known:
        return known[sharing]
    try:
        share = float(sharing)
    except ValueError:
        raise UnknownName("way of sharing contexts", str(sharing), known) from None
    if not 0 <= share <= 1:
        raise UsageError(f"sharing must lie between 0 and 1, or be 'own' or 'shared', got {sharing}.")
    return share


def _check(**sizes: int) -> None:
    for name, value in sizes.items():
        if isinstance(value, bool) or not isinstance(value, int) or value < 1:
            raise UsageError(f"{name} must be a whole number of at least 1, got {value!r}.")
        if name in ("vocab", "n_classes") and value > _MAX_TOKENS:
            raise UsageError(f"{name} may be at most {_MAX_TOKENS}, for the sake of memory, got {value}.")


def _check_size(n_rows: int, width: int) -> None:
    if n_rows * width > _MAX_CELLS:
        raise UsageError(f"a table of {n_rows} x {width} numbers would not fit in memory; ask for a smaller one.")


def _names(letter: str, count: int) -> list[str]:
    digits = len(str(count - 1))
    return [f"{letter}{k:0{digits}d}" for k in range(count)]


def _distinct(n_rows: int, draw: Callable[[int], IntArray], code: Callable[[IntArray], IntArray]) -> IntArray:
    """Draw rows until `n_rows` are distinct; later repeats are dropped, so each new row is uniform among the unseen."""
    rows = draw(n_rows)
    while True:
        rows = rows[first_positions(code(rows))]
        if len(rows) >= n_rows:
            return rows[:n_rows]
        rows = np.concatenate([rows, draw(2 * (n_rows - len(rows)) + 8)])


def _bags(n_rows: int, size: int, vocab: int, rng: np.random.Generator) -> IntArray:
    """Sorted rows, each a uniform collection of `size` tokens with repeats.

    Such collections are the `size`-subsets of vocab + size - 1 places; Floyd's algorithm draws all rows' subsets
    side by side.
    """
    n_places = vocab + size - 1
    chosen = np.full((n_rows, size), -1, dtype=np.int64)
    for k in range(size):
        top = n_places - size + k
        pick = rng.integers(top + 1, size=n_rows)
        taken = (chosen[:, :k] == pick[:, None]).any(axis=1)
        chosen[:, k] = np.where(taken, top, pick)
    chosen.sort(axis=1)
    return chosen - np.arange(size)
