"""Draws findings: each stage's time, and the one predicted with even tasks."""

from collections.abc import Sequence
from pathlib import Path

from matplotlib.figure import Figure

from unskew.apps.diagnosis.findings import CAUSES, Finding
from unskew.shell import explain_unwritable

# Orange and blue of Okabe and Ito's palette for the colour-blind.
_AS_IT_IS, _EVEN = "#E69F00", "#0072B2"


def draw_findings(labels: Sequence[str], findings: Sequence[Finding], title: str, file: Path) -> None:
    """Draw two bars per finding, the worst at the top.

    Raises
    ------
    EnvironmentFault
        The file can't be written.

    """
    figure = Figure(figsize=(9, 1.2 + 0.7 * len(findings)), layout="constrained")
    axes = figure.subplots()
    rows = range(len(findings))
    axes.barh(rows, [found.seconds for found in findings], 0.7, color=_AS_IT_IS, label="as it is")
    axes.barh(rows, [found.predicted for found in findings], 0.35, color=_EVEN, label="predicted, with even tasks")
    for row, found in zip(rows, findings, strict=True):
        axes.text(found.seconds, row, f" {CAUSES[found.cause]}", va="center", fontsize=9)
    axes.set_yticks(rows, labels, fontsize=9, parse_math=False)
    axes.invert_yaxis()
    axes.margins(x=0.25)
    axes.set_xlim(left=0)
    axes.set_xlabel("time of the stage (s)")
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(frameon=False, fontsize=9, loc="lower right")
    figure.suptitle(title, fontsize=11, parse_math=False)
    with explain_unwritable("--picture", file):
        file.parent.mkdir(parents=True, exist_ok=True)
        figure.savefig(file, dpi=110)
