"""Figures of papers, run again: studies, entries, and the page of results."""
