"""`unskew reproduce`: the papers' tables and figures again, paper's figure | ours | why they differ."""

from collections.abc import Callable, Sequence
from importlib import import_module
from pathlib import Path
from time import perf_counter
from typing import Annotated

import typer

from reproduction.page import Report, Sizing, page
from unskew.errors import EnvironmentFault, UsageError

#: Paper → its module and title.
PAPERS = {
    "pkg": ("reproduction.pkg", "Partial Key Grouping (Nasir et al.)"),
    "mixed": (
        "reproduction.mixed",
        "Parallel Stream Processing Against Workload Skewness and Variance (Fang et al.)",
    ),
    "posg": ("reproduction.posg", "Proactive Online Scheduling for Shuffle Grouping (Rivetti et al.)"),
    "dpa": ("reproduction.dpa", "DPA Load Balancer"),
    "dkg": ("reproduction.dkg", "Dynamic Key Grouping (Dalabasmaz, Can)"),
}
_PAGE = 140  # columns, where the output isn't a terminal


def reproduce(
    experiments: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[PAPER[/EXPERIMENT]]…", help=f"Which: {', '.join(PAPERS)}, or posg/figure-4. Default: all."
        ),
    ] = None,
    scale: Annotated[float, typer.Option(help="Share of the papers' sizes; 1 is the whole of it.")] = 0.1,
    seed: Annotated[int, typer.Option(min=0, help="Of streams and hash functions.")] = 0,
    output: Annotated[Path, typer.Option(help="Directory for tables (CSV, and all in README.md) and pictures.")] = Path(
        "out/reproduce"
    ),
    list_: Annotated[bool, typer.Option("--list", help="Name the experiments, run none.")] = False,
) -> None:
    """Run the papers' experiments and print each table: the paper's figure, ours, and why they differ.

    Example: unskew reproduce pkg/table-2 posg --scale 1
    """
    from rich.console import Console

    console = Console()
    if not console.is_terminal:
        console = Console(width=_PAGE)
    chosen = _chosen(experiments or list(PAPERS))
    if list_:
        for name in chosen:
            console.print(name)
        return
    if not 0 < scale <= 1:
        raise UsageError(f"--scale is {scale:g}; valid: above 0, at most 1")
    settings = Sizing(scale=scale, seed=seed)
    titles: list[str] = []
    sections: list[str] = []
    for name, experiment in chosen.items():
        began = perf_counter()
        report = experiment(settings)
        report.print(console)
        try:
            files = report.save(output, name.replace("/", "-"))
            titles.append(report.title)
            sections.append(report.markdown(next((file.name for file in files if file.suffix == ".png"), None)))
            command = " ".join(["unskew reproduce", *(experiments or []), f"--scale {scale:g} --seed {seed}"])
            (output / "README.md").write_text(page(command, titles, sections), encoding="utf-8")
        except OSError as error:
            raise EnvironmentFault(f"--output {output} can't be written ({error.strerror}): choose another") from error
        console.print(f"[dim]{name}: {perf_counter() - began:.1f} s; {', '.join(map(str, files))}[/]\n")


def _chosen(names: Sequence[str]) -> dict[str, Callable[[Sizing], Report]]:
    """``paper/experiment`` → its function, for the named papers and experiments.

    Raises
    ------
    UsageError
        There is none of that name.

    """
    found: dict[str, Callable[[Sizing], Report]] = {}
    for name in names:
        paper, _, experiment = name.partition("/")
        if paper not in PAPERS:
            raise UsageError(f"unknown paper {paper!r}; valid: {', '.join(PAPERS)}")
        there: dict[str, Callable[[Sizing], Report]] = import_module(PAPERS[paper][0]).EXPERIMENTS
        if experiment and experiment not in there:
            raise UsageError(f"{paper} has no experiment {experiment!r}; valid: {', '.join(there)}")
        found |= {f"{paper}/{one}": run for one, run in there.items() if one == (experiment or one)}
    return found
