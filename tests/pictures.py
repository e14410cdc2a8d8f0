"""What a picture draws: its lines, bars and texts, rather than its pixels."""

import pytest
from matplotlib.axes import Axes
from matplotlib.figure import Figure


@pytest.fixture
def figures(monkeypatch: pytest.MonkeyPatch) -> list[Figure]:
    """The figures that the test writes, in their order."""
    written: list[Figure] = []
    write = Figure.savefig

    def savefig(figure: Figure, *arguments, **options):
        written.append(figure)
        return write(figure, *arguments, **options)

    monkeypatch.setattr(Figure, "savefig", savefig)
    return written


def panels(figure: Figure) -> dict[str, Axes]:
    """The figure's visible panels, by their titles."""
    return {axes.get_title("left") or axes.get_title(): axes for axes in figure.axes if axes.get_visible()}


def lines(axes: Axes) -> dict[str, tuple[list[float], list[float]]]:
    """The panel's lines: label → x, y."""
    return {str(line.get_label()): (list(line.get_xdata()), list(line.get_ydata())) for line in axes.lines}
