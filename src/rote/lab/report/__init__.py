"""The report: results of `rote reproduce` and of any sweep as one HTML page that needs nothing but itself."""

from rote.lab.report.make import Report, report
from rote.lab.report.section import Listing, Picture, Section, Table

__all__ = ["Listing", "Picture", "Report", "Section", "Table", "report"]
