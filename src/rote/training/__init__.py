"""The batched trainer: many seeds of one shape stacked in one tensor, and the recipes of the papers as data."""

from rote.training.loop import Outcome, bytes_needed, train
from rote.training.recipes import RECIPES, Recipe, get_recipe
from rote.training.spec import FAMILIES, ModelSpec, initial_weights
from rote.training.tables import TokenStack, VectorStack

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
