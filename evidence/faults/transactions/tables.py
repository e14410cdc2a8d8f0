"""What a campaign of transactions prints at its end."""

from rich.console import Console
from rich.table import Table

from evidence.faults.transactions.check import Verdict
from evidence.faults.transactions.plan import KINDS, ROLES
from evidence.faults.transactions.protocol import STEPS
from evidence.faults.transactions.trial import Tally
from evidence.tables import make_facts, make_table

_SHOWN = 100  # letters of an error
_DONE = {"kill": "killed", "stop": "stopped"}


def show(tally: Tally, planned: int, minutes: float, verdict: Verdict | None, console: Console) -> bool:
    """Print the tables; whether all is as it must be.

    ``tally``: What happened. ``planned``: Faults of the plan. ``minutes``: How long it took. ``verdict``: What a plain
    consumer has seen; None: it hasn't looked. ``console``: Where to print.
    """
    console.print(_kinds(tally))
    console.print(_steps(tally))
    if tally.failures or tally.wrong or tally.stuck:
        console.print(_errors(tally))
    console.print(_result(tally, planned, minutes, verdict))
    wrong = tally.wrong or tally.stuck or tally.inflicted.total() < planned
    return verdict is not None and verdict.exact and not wrong


def _kinds(tally: Tally) -> Table:
    table = make_table("fault", "times")
    for kind, what in KINDS.items():
        times = sum(number for (each, _, _), number in tally.inflicted.items() if each == kind)
        if times:
            table.add_row(what, f"{times:,}")
    table.add_row("all", f"{tally.inflicted.total():,}")
    return table


def _steps(tally: Tally) -> Table:
    columns = [(kind, role) for kind in _DONE for role in ROLES]
    table = make_table("before the step", *(f"{_DONE[kind]}: {role}" for kind, role in columns))
    for step in STEPS:
        times = [tally.inflicted[kind, role, step] for kind, role in columns]
        if any(times):
            table.add_row(step, *(str(number or "") for number in times))
    return table


def _errors(tally: Tally) -> Table:
    table = make_table("a batch was given up for now, or a part for good", "times")
    for said, times in tally.failures.most_common():
        table.add_row(said[:_SHOWN], f"{times:,}")
    for said in (*tally.wrong, *tally.stuck):
        table.add_row(said.strip().splitlines()[-1][:_SHOWN], "1")
    return table


def _result(tally: Tally, planned: int, minutes: float, verdict: Verdict | None) -> Table:
    rows: dict[str, str | int] = {
        "minutes": f"{minutes:.1f}",
        "faults": tally.inflicted.total(),
        "… of the plan that didn't come": planned - tally.inflicted.total(),
        "batches": tally.batches,
        "times that a process wrote a batch": tally.outcomes["written"],
        "… found it written": tally.outcomes["found"],
        "… gave it back, because another one had interrupted it": tally.outcomes["interrupted"],
        "… gave it back, because a broker didn't answer, or the like": tally.outcomes["failed"],
        "times that a process was interrupted and began again by itself": tally.began_again,
        "parts that were given up": len(tally.stuck),
        "processes that ended by themselves, or with a traceback": len(tally.wrong),
    }
    if verdict is not None:
        rows |= {
            "records that a plain consumer of committed ones has read": verdict.records,
            "… lost": verdict.lost,
            "… doubled": verdict.doubled,
            "partitions with an open transaction": len(verdict.open),
        }
    else:
        rows["records"] = "not checked"
    return make_facts(rows)
