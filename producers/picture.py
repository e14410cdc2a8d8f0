"""The picture of skew: each key's share against its rank, both logarithmic."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from numpy.typing import NDArray

from unskew.errors import EnvironmentFault

_POINTS = 300  # of a curve: more can't be told apart


def draw(curves: Mapping[str, NDArray[np.floating[Any]]], path: Path) -> None:
    """Draw curves of shares, each falling from the most frequent key on.

    Raises
    ------
    EnvironmentFault
        The file can't be written.

    """
    figure = Figure(figsize=(9, 5.5), layout="constrained")
    axes = figure.subplots()
    for number, (name, shares) in enumerate(curves.items()):
        if len(shares):
            ranks = np.unique(np.geomspace(1, len(shares), _POINTS).astype(int))
            # there are ten colours
            line = {"color": f"C{number % 10}", "linestyle": "-" if number < 10 else "--"}
            axes.loglog(ranks, shares[ranks - 1], label=name, linewidth=1.8, **line)
    axes.set(xlabel="rank of the key", ylabel="share of the tuples", title="How skewed are the datasets?")
    axes.grid(which="major", alpha=0.3)
    axes.legend(fontsize="small", loc="lower left")
    try:
        figure.savefig(path, dpi=120)
    except OSError as error:
        raise EnvironmentFault(f"{path} cannot be written: {error.strerror}") from None
