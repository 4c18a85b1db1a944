"""Scaling laws: points from a journal, laws with intervals, and what the theorems predict for the same shapes."""

from rote.fit.compare import Fit, Prediction, fit
from rote.fit.laws import LAWS, Curve, Law
from rote.fit.points import Point, gather

__all__ = ["LAWS", "Curve", "Fit", "Law", "Point", "Prediction", "fit", "gather"]
