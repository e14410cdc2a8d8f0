"""The operators of Spark SQL: which of them ran in a stage, by which columns its rows were shuffled, and what it is."""

import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

#: The metrics of an Exchange that the stage after it counts. All others are counted by the stage before it.
_READ_METRICS = {
    "records read",
    "local blocks read",
    "remote blocks read",
    "local bytes read",
    "remote bytes read",
    "fetch wait time",
    "remote reqs duration",
}
#: What only holds other operators, or changes how rows are represented.
_WRAPPERS = re.compile(
    r"WholeStageCodegen|InputAdapter|ColumnarToRow|RowToColumnar|AQEShuffleRead|AdaptiveSparkPlan|Project|Filter|Reused"
)
_HASHED = re.compile(r"hashpartitioning\((.*), (\d+)\)")
_NUMBER = re.compile(r"#\d+L?")
#: What an operator is → the names of Spark's. The first kind of which a stage has an operator says what the stage is.
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

#: Those that are about how a shuffle has sent the rows.
SHUFFLED_KINDS = {"stream join", "state", "join", "group", "window", "write"}


@dataclass(frozen=True, slots=True)
class PlanNode:
    """An operator of a physical plan: its name, and Spark's line about it."""

    name: str
    text: str


class SqlPlan:
    """The operators of a query's physical plan, by the accumulators of their metrics.

    Parameters
    ----------
    description : str
        The query's text or description.

    """

    def __init__(self, description: str) -> None:
        self.description = description
        self._nodes: dict[int, tuple[PlanNode, str]] = {}

    def add(self, plan: Mapping[str, Any]) -> None:
        """Add the operators of ``sparkPlanInfo`` as event logs have it. AQE makes several plans of one query."""
        for node in _walk(plan):
            own = PlanNode(node["nodeName"].strip(), node["simpleString"])
            for metric in node["metrics"]:
                self._nodes.setdefault(metric["accumulatorId"], (own, metric["name"]))

    def find_nodes(self, accumulators: Collection[int]) -> tuple[list[str], list[str]]:
        """The names of the operators that have counted something in these accumulators, and the columns of the shuffle.

        The last operator of the stage comes first.
        """
        counted = set(accumulators)
        return find_stage_nodes((node, [metric]) for id_, (node, metric) in self._nodes.items() if id_ in counted)


def find_stage_nodes(nodes: Iterable[tuple[PlanNode, Collection[str]]]) -> tuple[list[str], list[str]]:
    """The operators' names, without those that only wrap others, and the columns of the shuffle that the stage reads.

    Parameters
    ----------
    nodes : iterable of (PlanNode, collection of str)
        Operators in order, and the metrics that the stage has counted of them. An operator may come several times.

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
    """The columns by whose hash an Exchange sends rows, in Spark's words but without the numbers of columns.

    >>> parse_keys("Exchange hashpartitioning(user#13, coalesce(price#14L, 0), 6), ENSURE_REQUIREMENTS, [plan_id=22]")
    ['user', 'coalesce(price, 0)']
    >>> parse_keys("Exchange SinglePartition")
    []
    """
    found = _HASHED.search(text)
    return re.split(r", (?![^(]*\))", _NUMBER.sub("", found[1])) if found else []


def choose_kind(nodes: Collection[str]) -> tuple[str, str]:
    """What a stage with these operators is, of ``KINDS``, and the operator. Empty: none of them says it.

    >>> choose_kind(["OverwriteByExpression noop", "SortMergeJoin", "Sort"])
    ('join', 'SortMergeJoin')
    """
    for kind, pattern in KINDS.items():
        for node in nodes:
            if re.search(pattern, node):
                return kind, node
    return "", next(iter(nodes), "")
