"""The batched trainer: many seeds of one shape stacked in one tensor, and the recipes of the papers as data."""

from rote.measurement.train.loop import Outcome, bytes_needed, train
from rote.measurement.train.recipes import RECIPES, Recipe, get_recipe
from rote.measurement.train.spec import FAMILIES, ModelSpec, initial_weights
from rote.measurement.train.tables import TokenStack, VectorStack

__all__ = [
    "FAMILIES",
    "RECIPES",
    "ModelSpec",
    "Outcome",
    "Recipe",
    "TokenStack",
    "VectorStack",
    "bytes_needed",
    "get_recipe",
    "initial_weights",
    "train",
]
