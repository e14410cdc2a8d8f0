"""Finds the Spark SQL operators of a stage, the columns of its shuffle, and its kind."""

import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

#: The metrics of an Exchange that the stage after it counts. The stage before it counts all others.
_READ_METRICS = {
    "records read",
    "local blocks read",
    "remote blocks read",
    "local bytes read",
    "remote bytes read",
    "fetch wait time",
    "remote reqs duration",
}
#: Operators that only wrap others, or convert the representation of rows.
_WRAPPERS = re.compile(
    r"WholeStageCodegen|InputAdapter|ColumnarToRow|RowToColumnar|AQEShuffleRead|AdaptiveSparkPlan|Project|Filter|Reused"
)
_HASHED = re.compile(r"hashpartitioning\((.*), (\d+)\)")
_NUMBER = re.compile(r"#\d+L?")
#: Kind → Spark's names of operators. A stage's kind is the first of which it has an operator.
KINDS = {
    "stream join": r"StreamingSymmetricHashJoin",
    "state": r"WithState|TransformWithState|StateStoreSave|StreamingDeduplicate|SessionWindowStateStoreSave",
    "join": r"SortMergeJoin|ShuffledHashJoin|CartesianProduct|BroadcastNestedLoopJoin",
    "group": r"FlatMapGroups|FlatMapCoGroups|MapGroups|Aggregate|AggregateInPandas",
    "window": r"^Window",
    "write": r"WriteFiles|InsertInto|AppendData|Overwrite|ReplaceData|WriteDelta|CreateTable",
    "function": r"MapInPandas|MapInArrow|MapPartitions|EvalPython|MapElements",
    "scan": r"Scan",
}

#: The kinds that depend on how a shuffle distributed the rows.
SHUFFLED_KINDS = {"stream join", "state", "join", "group", "window", "write"}


@dataclass(frozen=True, slots=True)
class PlanNode:
    """An operator of a physical plan: its name, and Spark's description."""

    name: str
    text: str


class SqlPlan:
    """The operators of a query's physical plan, found by their metrics' accumulators."""

    def __init__(self, description: str) -> None:
        self.description = description
        self._nodes: dict[int, tuple[PlanNode, str]] = {}

    def add(self, plan: Mapping[str, Any]) -> None:
        """Add the operators of an event log's ``sparkPlanInfo``. AQE makes several plans per query."""
        for node in _walk(plan):
            own = PlanNode(node["nodeName"].strip(), node["simpleString"])
            for metric in node["metrics"]:
                self._nodes.setdefault(metric["accumulatorId"], (own, metric["name"]))

    def find_nodes(self, accumulators: Collection[int]) -> tuple[list[str], list[str]]:
        """The names of the operators whose metrics these accumulators are, and the shuffle's columns.

        The stage's last operator comes first.
        """
        counted = set(accumulators)
        return find_stage_nodes((node, [metric]) for id_, (node, metric) in self._nodes.items() if id_ in counted)


def find_stage_nodes(nodes: Iterable[tuple[PlanNode, Collection[str]]]) -> tuple[list[str], list[str]]:
    """The operators' names, without wrappers, and the columns of the shuffle that the stage reads.

    The operators come in order, each with the stage's metrics of it. One may come several times.
    """
    names: dict[int, str] = {}
    keys: list[str] = []
    for node, metrics in nodes:
        if not node.name.endswith("Exchange"):
            names.setdefault(id(node), node.name)
        elif not _READ_METRICS.isdisjoint(metrics):
            keys = keys or parse_keys(node.text)
    return [name for name in names.values() if not _WRAPPERS.match(name)], keys


def _walk(plan: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    yield plan
    for child in plan.get("children", ()):
        yield from _walk(child)


def parse_keys(text: str) -> list[str]:
    """The columns by whose hash an Exchange distributes rows, as in Spark's text but without column numbers.

    >>> parse_keys("Exchange hashpartitioning(user#13, coalesce(price#14L, 0), 6), ENSURE_REQUIREMENTS, [plan_id=22]")
    ['user', 'coalesce(price, 0)']
    >>> parse_keys("Exchange SinglePartition")
    []
    """
    found = _HASHED.search(text)
    return re.split(r", (?![^(]*\))", _NUMBER.sub("", found[1])) if found else []


def choose_kind(nodes: Collection[str]) -> tuple[str, str]:
    """The kind (``KINDS``) of a stage with these operators, and the operator that decides it; empty if none does.

    >>> choose_kind(["OverwriteByExpression noop", "SortMergeJoin", "Sort"])
    ('join', 'SortMergeJoin')
    """
    for kind, pattern in KINDS.items():
        for node in nodes:
            if re.search(pattern, node):
                return kind, node
    return "", next(iter(nodes), "")
