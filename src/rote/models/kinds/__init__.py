"""Kinds of models, one file each, found by its name."""
