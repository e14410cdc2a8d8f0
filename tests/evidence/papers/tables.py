"""The papers' tables that are committed."""

import csv
from pathlib import Path

from evidence.papers.page import Report
from tests.pages import ROOT

#: Simulated, live.
FOLDERS = (ROOT / "evidence/papers/tables", ROOT / "evidence/papers/tables/live")


def get_name(file: str) -> str:
    """The name of the experiment whose CSV this is."""
    return file.removesuffix(".csv").replace("-", "/", 1)


def read_report(file: Path, title: str = "") -> Report:
    """The table of a CSV that ``Report.save`` wrote."""
    with file.open(newline="", encoding="utf-8") as lines:
        columns, *rows = csv.reader(lines)
    return Report(title, columns, rows)
