"""What `unskew simulate --join` prints: a table for each number of workers, the hottest keys, and what to do."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from rich.console import Console, Group
from rich.table import Table

from unskew.apps.cli.simulation.input_stream import StreamSpec
from unskew.apps.cli.simulation.join_loads import (
    BALANCED,
    BALANCED_BY_COST,
    HASH,
    JoinedKey,
    JoinFigures,
    JoinSides,
    JoinSimulation,
    pair_sides,
)
from unskew.apps.cli.simulation.tables import shorten_key
from unskew.errors import UsageError
from unskew.grouping.split_join.plan import PAIR_COST

#: Counting takes CPU, too (docs/library.md): it is worth it if the fullest worker gets half at most.
LEAST_GAIN = 2.0
_LITTLE = 1.1  # from which on a plan by cost is better than one by rows


def print_join(given: Sequence[StreamSpec], workers: Sequence[int], batch: int | None, *, as_json: bool) -> None:
    """Print what a join of two streams does, for each number of workers; or an object for each of them.

    The left stream's seed is that of all draws. The ``batch`` is as ``JoinSimulation`` has it.

    Raises ``UsageError`` if a stream has no row with a key.
    """
    console = Console()
    sides = pair_sides(*(each.read_some(recorded=False).keys for each in given))
    for each, rows in zip(given, (len(sides.keys), int(sides.right.sum())), strict=True):
        if not rows:
            raise UsageError(f"stream {each.spec!r} has no row with a key; valid: a stream that has")
    for count in workers:
        simulation = JoinSimulation(sides, count, batch, given[0].seed)
        figures = simulation.compute_figures()
        if as_json:
            print(json.dumps(describe_join(simulation, figures)))
        else:
            console.print(make_join_tables(simulation, figures))
            console.print(advise_join(simulation, figures), highlight=False, soft_wrap=True, markup=False)
    for each in given:
        each.rejects.show(Console(stderr=True) if as_json else console)


def describe_join(simulation: JoinSimulation, figures: Mapping[str, JoinFigures]) -> dict[str, Any]:
    """What a simulation says, as JSON has it."""
    sides = simulation.sides
    return {
        "left": len(sides.keys),
        "right": int(sides.right.sum()),
        "pairs": int(sides.pairs.sum()),
        "workers": simulation.workers,
        "batches": simulation.count_batches(),
        "hottest": [key._asdict() for key in simulation.find_hottest()],
        "ways": [{"way": way} | found._asdict() for way, found in figures.items()],
        "advice": advise_join(simulation, figures),
    }


def make_join_tables(simulation: JoinSimulation, figures: Mapping[str, JoinFigures]) -> Group:
    """A row for each way to join, and a row for each of the hottest keys."""
    sides, batches = simulation.sides, simulation.count_batches()
    of = f" in {batches:,} batches" if batches > 1 else ""
    shown = Table(
        title=f"{len(sides.keys):,} rows{of} join {int(sides.right.sum()):,} rows: "
        f"{int(sides.pairs.sum()):,} pairs, W = {simulation.workers}",
        caption="fullest ÷ mean: the rows of both inputs at the fullest worker, ÷ the mean if each row were sent once. "
        f"With pairs: each of them costs {PAIR_COST:g} of a row.",
    )
    shown.add_column("way", no_wrap=True)
    for column in ("fullest ÷\nmean", "… with\npairs", "right rows sent\n÷ right rows"):
        shown.add_column(column, justify="right", no_wrap=True)
    for way, found in figures.items():
        shown.add_row(way, f"{found.fullest:.2f}", f"{found.fullest_with_pairs:.2f}", f"{found.right_sent:.2f}")
    hottest = Table()
    hottest.add_column("hottest keys", no_wrap=True)
    for column in ("left rows", "right rows", "pairs"):
        hottest.add_column(column, justify="right", no_wrap=True)
    for key in simulation.find_hottest():
        hottest.add_row(shorten_key(key.key), *(f"{number:,}" for number in (key.left, key.right, key.pairs)))
    return Group(shown, hottest)


def advise_join(simulation: JoinSimulation, figures: Mapping[str, JoinFigures]) -> str:
    """One sentence: how to join these inputs."""
    hottest = simulation.find_hottest()
    for key in hottest:
        if _is_hot_on_both(key, simulation.sides, simulation.workers):
            return f"{shorten_key(key.key)} is hot on both sides: {key.pairs:,} pairs; narrow the join."
    plain, by_rows, by_cost = (figures[way] for way in (HASH, BALANCED, BALANCED_BY_COST))
    most, top = max(plain.fullest, plain.fullest_with_pairs), shorten_key(hottest[0].key)
    gain = max(plain.fullest / by_rows.fullest, plain.fullest_with_pairs / by_cost.fullest_with_pairs)
    if gain >= LEAST_GAIN:
        needs_cost = by_rows.fullest_with_pairs > _LITTLE * by_cost.fullest_with_pairs
        best = by_cost.fullest_with_pairs if needs_cost else by_rows.fullest
        cost = f" with cost = 1 + {PAIR_COST:g} * the key's right rows" if needs_cost else ""
        return f"balanced_join{cost} spreads {top}: its fullest worker has {best:.2f} times the mean, not {most:.2f}."
    if most >= LEAST_GAIN and hottest[0].right > hottest[0].left:
        return f"{top} is hot in the second input; change the inputs, as balanced_join spreads those of the first."
    kept = f"the fullest worker of a hash join has {most:.2f} times the mean"
    return f"No key is hot enough: {kept}; Spark's own join will do."


def _is_hot_on_both(key: JoinedKey, sides: JoinSides, workers: int) -> bool:
    """Whether a key has more than a worker's share of each side, and more pairs than both sides have rows.

    Then its pairs are nearly all of the work, and they are as many however they are spread.
    """
    left, right = len(sides.keys), int(sides.right.sum())
    return min(key.left / left, key.right / right) > 1 / workers and key.pairs > left + right
