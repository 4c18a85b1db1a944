"""Facts into a pretrained language model, by construction: one more layer of the model's own kind."""

from rote.graft.files import ungraft
from rote.graft.grafting import GraftRequest, graft

__all__ = ["GraftRequest", "graft", "ungraft"]
