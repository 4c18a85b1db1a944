"""Kinds of tables, one file each, found by its name."""
