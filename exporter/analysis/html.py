"""The report as one page that needs nothing else: drawn by its template, readable in light and dark."""

from functools import cache

from jinja2 import Template

from exporter.analysis import drawing
from exporter.analysis.report import Report
from exporter.analysis.text import engine_facts, file_line, when, who
from exporter.pages import number, templates

LONGEST_TABLE = 500
"""Entries of the timeline that the page has as text."""


def page(report: Report) -> str:
    """The whole page."""
    return _template().render(report=report, drawings=drawing.drawings(report), size=drawing, longest=LONGEST_TABLE)


@cache
def _template() -> Template:
    return templates("analysis", when=when, number=number, facts=engine_facts, file_line=file_line, who=who).get_template("report.html")
