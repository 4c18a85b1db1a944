"""Grafts that know keys by their tokens: heads, stores and gates in channels added to a pretrained model's stream."""
