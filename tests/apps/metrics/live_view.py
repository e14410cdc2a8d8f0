"""Reports of batches, and the live view of them as text."""

import io

import numpy as np
from rich.console import Console

from unskew.apps.checkpoint.checkpoint import Batch
from unskew.apps.checkpoint.versions import Totals
from unskew.apps.driver.batch_committer import BatchReport


def report(loads, windows=()):
    loads = np.array(loads)
    batch = Batch(0, 0, 0, 0, {}, {})
    return BatchReport(batch, loads, loads / 1000, 0, 0, 0.0, {}, Totals(), [(window, Totals()) for window in windows])


def shown(view, height=30):
    console = Console(file=io.StringIO(), width=120)
    console.print(view.picture(height))
    return console.file.getvalue()
