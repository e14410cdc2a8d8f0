"""What a run comes to in one number each, for all dashboards that show it."""

from dashboards.grafana import flux
from dashboards.metrics import metric

STD_DEV = flux.spread(metric("worker", "tuples"))
DIST_COST = flux.weighted(metric("window", "dist_cost"), metric("window", "distinct_keys"))
STRAGGLING = flux.ratio(metric("batch", "slowest"), metric("batch", "mean"))
THROUGHPUT = flux.over_range(metric("window", "throughput_ratio"), "last")
