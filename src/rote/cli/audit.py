"""`rote audit`: placeholder."""

__all__ = ["audit"]


def audit() -> None:
    """Audit."""
