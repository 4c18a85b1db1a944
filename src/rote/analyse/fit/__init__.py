"""Scaling laws: points from a journal, laws with intervals, and what the theorems predict for the same shapes."""

from rote.analyse.fit.compare import Fit, Prediction, fit, predict
from rote.analyse.fit.laws import LAWS, Curve, Law
from rote.analyse.fit.points import Point, gather

__all__ = ["LAWS", "Curve", "Fit", "Law", "Point", "Prediction", "fit", "gather", "predict"]
