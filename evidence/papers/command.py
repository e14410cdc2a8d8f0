"""``python -m evidence.papers``: the papers' tables and figures: theirs, ours, the difference, and its reason."""

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from functools import partial
from importlib import import_module
from pathlib import Path
from time import perf_counter
from typing import Annotated

import typer

from evidence.papers.agreement import make_difference_column, summary
from evidence.papers.page import Remarks, Report, Sizing, page
from unskew.errors import EnvironmentFault, UsageError

#: Paper → its module and title.
PAPERS = {
    "pkg": ("evidence.papers.pkg", "Partial Key Grouping (Nasir et al.)"),
    "mixed": (
        "evidence.papers.mixed",
        "Parallel Stream Processing Against Workload Skewness and Variance (Fang et al.)",
    ),
    "posg": ("evidence.papers.posg", "Proactive Online Scheduling for Shuffle Grouping (Rivetti et al.)"),
    "dpa": ("evidence.papers.dpa", "DPA Load Balancer"),
    "dkg": ("evidence.papers.dkg", "Dynamic Key Grouping (Dalabasmaz, Can)"),
}
COMMAND = "python -m evidence.papers"
_TITLES = {name: title for name, (_, title) in PAPERS.items()}
#: The papers that have live experiments, which need a stage.
LIVE = ("mixed", "posg")


def reproduce(
    experiments: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="PAPER[/EXPERIMENT]", help=f"Which: {', '.join(PAPERS)}, or posg/figure-4. Default: all."
        ),
    ] = None,
    scale: Annotated[float, typer.Option(help="Share of the papers' sizes; 1 is the whole of it.")] = 0.1,
    seed: Annotated[int, typer.Option(min=0, help="Of streams and hash functions.")] = 0,
    output: Annotated[
        Path | None,
        typer.Option(
            help="Directory for tables (CSV, and all in README.md) and pictures.",
            show_default="out/reproduce, or out/reproduce-live",
        ),
    ] = None,
    live: Annotated[
        bool,
        typer.Option("--live", help="The papers' live experiments, through Kafka and Spark (half an hour)."),
    ] = False,
    list_: Annotated[bool, typer.Option("--list", help="Name the experiments, run none.")] = False,
) -> None:
    """Run the papers' experiments and print each table: the paper's figure, ours, and why they differ.

    The README.md that it writes begins with a summary: how many figures agree with the papers'.

    Example: python -m evidence.papers pkg/table-2 posg --scale 1
    """
    papers = LIVE if live else list(PAPERS)
    chosen = _chosen(experiments or papers, papers, "LIVE" if live else "EXPERIMENTS")
    output = output or Path("out/reproduce-live" if live else "out/reproduce")
    if list_:
        for name in chosen:
            print(name)
        return
    if not 0 < scale <= 1:
        raise UsageError(f"--scale is {scale:g}; valid: above 0, at most 1")
    settings = Sizing(scale=scale, seed=seed)
    reports: dict[str, Report] = {}
    sections: list[str] = []
    common: list[Remarks] = []
    command = " ".join([COMMAND, *(experiments or []), *["--live"] * live, f"--scale {scale:g} --seed {seed}"])
    with ExitStack() as stack:
        if live:
            from evidence.papers.stage import stage  # deferred: live experiments alone need Kafka and Spark

            there = stack.enter_context(stage())
            chosen = {name: partial(experiment, stage=there) for name, experiment in chosen.items()}
        for name, experiment in chosen.items():
            began = perf_counter()
            report = reports[name] = experiment(settings)
            try:
                files = report.save(output, name.replace("/", "-"))
                picture = next((file.name for file in files if file.suffix == ".png"), None)
                sections.append(report.markdown(picture, files[0].name, make_difference_column(name, report)))
                if report.common is not None and report.common not in common:
                    common.append(report.common)
                remarks = [some.markdown() for some in common]
                text = page(command, [*remarks, *sections], summary(reports, _TITLES), live=live)
                (output / "README.md").write_text(text, encoding="utf-8")
            except OSError as error:
                raise EnvironmentFault(
                    f"--output {output} can't be written ({error.strerror}): choose another"
                ) from error
            print(f"{sections[-1]}\n{name}: {perf_counter() - began:.1f} s; {', '.join(map(str, files))}\n")


def _chosen(names: Sequence[str], papers: Sequence[str], kind: str) -> dict[str, Callable[..., Report]]:
    """``paper/experiment`` → its function, for the named papers and experiments, of ``EXPERIMENTS`` or ``LIVE``.

    Raises UsageError: There is no paper, or no experiment, of that name.
    """
    found: dict[str, Callable[..., Report]] = {}
    for name in names:
        paper, _, experiment = name.partition("/")
        if paper not in papers:
            raise UsageError(f"unknown paper {paper!r}; valid{' with --live' * (kind == 'LIVE')}: {', '.join(papers)}")
        there: dict[str, Callable[..., Report]] = getattr(import_module(PAPERS[paper][0]), kind)
        if experiment and experiment not in there:
            raise UsageError(f"{paper} has no experiment {experiment!r}; valid: {', '.join(there)}")
        found |= {f"{paper}/{one}": run for one, run in there.items() if one == (experiment or one)}
    return found
