"""The works that theorem files cite, each as a function of the place inside it."""

from __future__ import annotations

from rote.theorems import Citation

__all__ = ["dana2025", "kajitsuka2025", "kim2023", "madden2024", "mahdavi2024", "yang2026"]


def mahdavi2024(where: str) -> Citation:
    return Citation(
        authors="Mahdavi, Liao, Thrampoulidis",
        title="Memorization Capacity of Multi-Head Attention in Transformers",
        year=2024,
        where=where,
        arxiv="2306.02010v3",
        venue="ICLR 2024",
    )


def dana2025(where: str) -> Citation:
    return Citation(
        authors="Dana, Pydi, Chevaleyre",
        title="Memorization in Attention-only Transformers",
        year=2025,
        where=where,
        arxiv="2411.10115v2",
        venue="AISTATS 2025",
    )


def kajitsuka2025(where: str) -> Citation:
    return Citation(
        authors="Kajitsuka, Sato",
        title="On the Optimal Memorization Capacity of Transformers",
        year=2025,
        where=where,
        arxiv="2409.17677",
        venue="ICLR 2025",
    )


def kim2023(where: str) -> Citation:
    return Citation(
        authors="Kim, Kim, Mozafari",
        title="Provable Memorization Capacity of Transformers",
        year=2023,
        where=where,
        venue="ICLR 2023",
    )


def madden2024(where: str) -> Citation:
    return Citation(
        authors="Madden, Fox, Thrampoulidis",
        title="Next-token prediction capacity: general upper bounds and a lower bound for transformers",
        year=2024,
        where=where,
        arxiv="2405.13718v3",
    )


def yang2026(where: str) -> Citation:
    return Citation(
        authors="Yang, Srebro, Li",
        title="Tight Sample Complexity of Transformers",
        year=2026,
        where=where,
        arxiv="2606.09731v1",
        venue="COLT 2026",
    )
