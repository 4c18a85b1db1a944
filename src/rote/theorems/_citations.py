"""The works that theorem files cite, each as a function of the place inside it."""

from __future__ import annotations

from functools import partial

from rote.theorems import Citation

__all__ = ["allenzhu2024", "dana2025", "kajitsuka2025", "kim2023", "madden2024", "mahdavi2024", "yang2026"]

allenzhu2024 = partial(
    Citation,
    "Allen-Zhu, Li",
    "Physics of Language Models: Part 3.3, Knowledge Capacity Scaling Laws",
    2024,
    arxiv="2404.05405",
    venue="ICLR 2025",
)
mahdavi2024 = partial(
    Citation,
    "Mahdavi, Liao, Thrampoulidis",
    "Memorization Capacity of Multi-Head Attention in Transformers",
    2024,
    arxiv="2306.02010v3",
    venue="ICLR 2024",
)
dana2025 = partial(
    Citation,
    "Dana, Pydi, Chevaleyre",
    "Memorization in Attention-only Transformers",
    2025,
    arxiv="2411.10115v2",
    venue="AISTATS 2025",
)
kajitsuka2025 = partial(
    Citation,
    "Kajitsuka, Sato",
    "On the Optimal Memorization Capacity of Transformers",
    2025,
    arxiv="2409.17677",
    venue="ICLR 2025",
)
kim2023 = partial(
    Citation,
    "Kim, Kim, Mozafari",
    "Provable Memorization Capacity of Transformers",
    2023,
    venue="ICLR 2023",
)
madden2024 = partial(
    Citation,
    "Madden, Fox, Thrampoulidis",
    "Next-token prediction capacity: general upper bounds and a lower bound for transformers",
    2024,
    arxiv="2405.13718v3",
)
yang2026 = partial(
    Citation,
    "Yang, Srebro, Li",
    "Tight Sample Complexity of Transformers",
    2026,
    arxiv="2606.09731v1",
    venue="COLT 2026",
)
