"""What a run comes to in one number each, for all dashboards that show it."""

from unskew.apps.monitoring.catalogue import metric
from unskew.dashboards.grafana import flux

STD_DEV = flux.spread(metric("worker", "tuples"))
DIST_COST = flux.weighted(metric("window", "dist_cost"), metric("window", "distinct_keys"))
STRAGGLING = flux.ratio(metric("batch", "slowest"), metric("batch", "mean"))
THROUGHPUT = flux.over_range(metric("window", "throughput_ratio"), "last")
