"""`unskew skew`: how skewed each dataset is, beside what is published, in a table and a picture."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from unskew.errors import UsageError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from unskew.producers.dataset import Dataset
    from unskew.producers.keycounts import KeyCounts

_PAGE = 120  # columns, where the output isn't a terminal
_PICTURES = (".png", ".svg", ".pdf")
# One of the country streams stands for all.
DEFAULT = [
    "COUNTRY_SKEW_R80",
    "TWITTER_TICKER",
    "TWITTER_ELECTION",
    "WIKIPEDIA_PAGEVIEWS",
    "WIKIPEDIA_PAGEVIEWS_BY_LANG",
    "WIKIPEDIA_CLICKSTREAM",
    "ZIPF",
    "DRIFTING_ZIPF",
    "LN1",
    "LN2",
    "POSG_UNIFORM",
    "POSG_ZIPF",
]


def skew(
    datasets: Annotated[
        list[str] | None, typer.Argument(metavar="DATASET", help="Which; default: one of each kind.")
    ] = None,
    scale: Annotated[float, typer.Option(help="Size of those with published sizes, 1 being theirs.")] = 0.1,
    seed: Annotated[int, typer.Option(min=0, help="The same seed generates the same records.")] = 0,
    plot: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Draw frequency against rank: a PNG, SVG or PDF.")
    ] = None,
) -> None:
    """Show the generated datasets' statistics beside the published ones, and draw how skewed they are."""
    from rich.console import Console
    from rich.table import Table

    if plot and plot.suffix.lower() not in _PICTURES:
        raise UsageError(f"--plot {plot} has no ending of a picture; valid: {', '.join(_PICTURES)}")
    table = Table("dataset")
    for column in ("records", "keys", "p1"):
        table.add_column(column, justify="right")
        table.add_column("published", justify="right")
    curves: dict[str, NDArray] = {}
    for name in datasets or DEFAULT:
        dataset = _dataset(name, scale, seed)
        counts = _counted(dataset)
        curves[dataset.name] = counts.frequencies() / max(counts.total, 1)
        table.add_row(dataset.name, *_row(dataset, counts))
    console = Console()
    (console if console.is_terminal else Console(width=_PAGE)).print(table)
    if plot:
        from unskew.producers.picture import draw

        draw(curves, plot)
        print(f"picture: {plot}")


def _dataset(name: str, scale: float, seed: int) -> "Dataset":
    from unskew.producers.registry import create, parameters

    try:
        options: dict[str, Any] = {"scale": scale} if "scale" in parameters(name) else {}
        return create(name, seed=seed, **options)
    except ValueError as error:
        raise UsageError(str(error)) from None


def _counted(dataset: "Dataset") -> "KeyCounts":
    from unskew.producers.keycounts import KeyCounts

    counts = KeyCounts()
    for block in dataset.blocks():
        counts.add(block.keys, block.counts)
    return counts


def _row(dataset: "Dataset", counts: "KeyCounts") -> list[str]:
    published = dataset.published
    top = counts.top(1)
    about = "≈ " if counts.error else ""
    here = (f"{dataset.records:,}", f"{about}{counts.distinct:,}", f"{top[0][1] / counts.total:.2%}" if top else "")
    there = ("", "", "")
    if published:
        numbers = (published.records, published.keys)
        there = (
            *(f"{number:,}" if number else "" for number in numbers),
            f"{published.p1:.2%}" if published.p1 else "",
        )
    return [cell for pair in zip(here, there, strict=True) for cell in pair]
