"""The shared parts of constructions: features, solves and fits, on plain arrays."""
