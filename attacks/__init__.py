"""Attacks on rote, kept as programs: `python -m attacks --help`, or `make attack MINUTES=10`."""
