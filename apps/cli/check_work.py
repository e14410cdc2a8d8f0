"""`unskew check-work`: check whether a keyed operator fulfils the contract of keyed operators."""

from typing import TYPE_CHECKING, Annotated

import typer

from unskew.errors import UsageError
from unskew.shell import parse_pairs

if TYPE_CHECKING:
    import pyarrow as pa

    from unskew.apps.operators import KeyedOperator


def check_work(
    work: Annotated[
        str, typer.Argument(metavar="MODULE:CLASS", help="The operator, such as unskew.operators:Sessions.")
    ],
    option: Annotated[
        list[str] | None,
        typer.Option("--work-option", "--option", "-o", metavar="NAME=VALUE", help="A parameter of the operator."),
    ] = None,
    column: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME=TYPE",
            help="Type of a column of the tuples: int64, double, … (default: the operator's, else string).",
        ),
    ] = None,
    cases: Annotated[int, typer.Option(min=1, help="Number of random batches, small ones first.")] = 200,
    seed: Annotated[int, typer.Option(min=0, help="Equal seeds give equal batches.")] = 0,
    nulls: Annotated[bool, typer.Option(help="Whether values may be null, NaN or infinite.")] = True,
) -> None:
    """Check a keyed operator on random tuples: its schemas, cuts into batches, merges in any order.

    Exit code 0: all properties that could be checked hold. Exit code 1: at least one doesn't.

    Example: unskew check-work unskew.operators:Sessions --work-option gap=30
    """
    # pyarrow and numba: the commands' help needn't wait for them.
    from unskew.apps.operators.conformance import check_operator, compares_exactly
    from unskew.apps.operators.loader import import_operator

    loaded = import_operator(work, parse_pairs("--work-option", option or []))
    kinds = {name: _parse_type(name, text, loaded) for name, text in parse_pairs("--column", column or []).items()}
    whole = "can be split" if loaded.mergeable else "can't be split: a key must stay at one worker"
    print(f"{work}: reads {', '.join(loaded.columns) or 'times alone'}; {whole}")
    failed = 0
    for outcome in check_operator(loaded, cases, seed, kinds, nulls=nulls):
        shown = "-" if outcome.skipped else "FAILS" if outcome.failure else "ok"
        print(f"{shown:6} {outcome.name:12} {outcome.skipped or outcome.says}")
        if outcome.failure:
            failed += 1
            print(f"       in case {outcome.cases} of seed {seed}: {outcome.failure}")
    if failed:
        print(f"{failed} of these fail in the cases shown; `--cases N` stops after case N")
        raise typer.Exit(1)
    equal = (
        ""
        if compares_exactly(loaded)
        else "; where states are compared, they agree within the bounds that the operator names"
    )
    print(f"no failure in {cases} cases of seed {seed}{equal}")


def _parse_type(name: str, text: str, work: "KeyedOperator") -> "pa.DataType":
    import pyarrow as pa

    if name not in work.columns:
        raise UsageError(f"the operator reads no column {name!r}; valid: {', '.join(work.columns) or 'none'}")
    try:
        return pa.type_for_alias(text)
    except ValueError:
        raise UsageError(f"column {name} is {text!r}; valid: an Arrow type, such as string, int64, double") from None
