"""Layers added to a pretrained model: states, gates and a convex fit. Knows sequences of tokens and tensors only."""
