"""What a user chooses above a dashboard: data sources, runs, groupings, workers. All of it is asked, none is typed."""

from grafana_foundation_sdk.builders.dashboard import DatasourceVariable, QueryVariable
from grafana_foundation_sdk.models.dashboard import VariableOption, VariableRefresh, VariableSort

from unskew.apps.monitoring import catalogue
from unskew.apps.monitoring.catalogue import COMMON
from unskew.dashboards.grafana.sources import INFLUXDB, PROMETHEUS, SOURCES

_TAG_VALUES = (
    'import "influxdata/influxdb/schema"\n'
    'schema.tagValues(bucket: v.defaultBucket, tag: "{tag}", '
    "predicate: (r) => {predicate}, start: v.timeRangeStart, stop: v.timeRangeStop)"
)
_LABELS = {"run": "Run", "grouping": "Grouping", "worker": "Worker"}


def source(name: str) -> DatasourceVariable:
    """The data source of a kind; ours, where it is provisioned."""
    label, uid = SOURCES[name]
    return (
        DatasourceVariable(name)
        .type(name)
        .label(label)
        .description(f"The {label} that has the topology's metrics")
        .current(VariableOption(text=label, value=uid))
    )


def tag(name: str, *, prometheus: bool = False) -> QueryVariable:
    """A tag's values in the time range, any number of them or all; ``worker`` of the chosen runs only."""
    if prometheus:
        known = catalogue.metric("run", "tuples").prometheus_name
        query, where = f"label_values({known}, {name})", PROMETHEUS
    else:
        predicate = "r.run =~ /^${run:regex}$/" if name == "worker" else 'r._measurement == "batch"'
        query, where = _TAG_VALUES.format(tag=name, predicate=predicate), INFLUXDB
    return (
        QueryVariable(name)
        .label(_LABELS[name])
        .description({"run": COMMON["run"], "grouping": "groupingType", "worker": "0 … W − 1"}[name])
        .datasource(where)
        .query({"query": query, "refId": "A", **({"qryType": 1} if prometheus else {})})
        .multi(True)
        .include_all(True)
        .all_value(".*")
        .current(VariableOption(text="All", value="$__all", selected=True))
        .refresh(VariableRefresh.ON_TIME_RANGE_CHANGED)
        .sort(VariableSort.NUMERICAL_ASC if name == "worker" else VariableSort.ALPHABETICAL_ASC)
    )
