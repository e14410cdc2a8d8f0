"""Pipeline: does the run keep up with its topic, and where does the time go."""

from grafana_foundation_sdk.models import units
from grafana_foundation_sdk.models.dashboard import Dashboard

from unskew.apps.metrics.catalogue import metric
from unskew.dashboards.grafana import panels, promql
from unskew.dashboards.grafana.page import page
from unskew.dashboards.grafana.panels import UNITS


def pipeline() -> Dashboard:
    """Rates, lag, durations and state, as Prometheus sees them."""
    return page(
        "unskew-pipeline",
        "Is it keeping up?",
        "Rates, lag, durations and state of the running topologies. It keeps up while the lag stays flat.",
        [
            panels.numbers(
                "How many messages wait?",
                "Messages in the topic that no micro-batch has taken yet.",
                UNITS["messages"],
                promql.query(promql.now(metric("query", "lag"))),
                4,
            ),
            panels.numbers(
                "How old is the newest batch?",
                "Time since the newest micro-batch was planned. It grows when the query hangs.",
                UNITS["seconds"],
                promql.query(promql.age(metric("query", "batch"))),
                4,
            ),
            panels.numbers(
                "How old is the watermark?",
                "Time since the end of the last closed window (the watermark).",
                UNITS["seconds"],
                promql.query(promql.age(metric("query", "watermark"))),
                4,
            ),
            panels.numbers(
                "How many were invalid?",
                "Messages in the time range that are invalid for the source type.",
                UNITS["messages"],
                promql.query(promql.increase(metric("run", "rejected"))),
                4,
            ),
            panels.numbers(
                "How many came too late?",
                "Tuples in the time range that came after their window was closed.",
                UNITS["tuples"],
                promql.query(promql.increase(metric("run", "late"))),
                4,
            ),
            panels.numbers(
                "How many metrics were lost?",
                "Points in the time range that InfluxDB did not take. The stream doesn't wait for InfluxDB.",
                UNITS["records"],
                promql.query(promql.increase(metric("influxdb", "lost"))),
                4,
            ).no_value("No run writes to InfluxDB"),
            panels.lines(
                "Does one worker have too much?",
                "The busiest worker's tuples in the newest window, divided by the mean of all workers. 1 is ideal.",
                UNITS["ratio"],
                promql.query(promql.busiest(metric("worker", "tuples"))),
                8,
                alert="LoadImbalanced",
            ),
            panels.lines(
                "What part is invalid?",
                "Messages that are invalid for the source type, as a part of all messages of the last five minutes.",
                units.PercentUnit,
                promql.query(
                    promql.part(metric("run", "rejected"), metric("run", "rejected"), metric("run", "tuples"))
                ),
                8,
                alert="RejectsRising",
            ),
            panels.lines(
                "What part comes too late?",
                "Tuples that came after their window was closed, as a part of all tuples of the last five minutes.",
                units.PercentUnit,
                promql.query(promql.part(metric("run", "late"), metric("run", "tuples"))),
                8,
                alert="LateRising",
            ),
            panels.lines(
                "How many tuples a second?",
                "Tuples routed per second, over the last minute.",
                UNITS["tuples/s"],
                promql.query(promql.rate(metric("run", "tuples"))),
                8,
            ),
            panels.lines(
                "Is it falling behind?",
                "How long the messages that wait would take, at the newest batch's speed, if no others came. A flat "
                "line: it keeps up.",
                UNITS["seconds"],
                promql.query(promql.catching_up(metric("query", "lag"), metric("query", "processed_rate"))),
                8,
                alert="FallingBehind",
            ),
            panels.lines(
                "How long does a batch take?",
                "The micro-batch from trigger to commit.",
                UNITS["seconds"],
                promql.query(promql.now(metric("query", "duration"))),
                8,
            ),
            panels.lines(
                "How much arrives?",
                "Messages per second that arrived between the last two triggers.",
                UNITS["messages/s"],
                promql.query(promql.now(metric("query", "input_rate"))),
                8,
            ),
            panels.lines(
                "How much can it process?",
                "Messages per second that the last micro-batch processed. If more arrive, the run falls behind.",
                UNITS["messages/s"],
                promql.query(promql.now(metric("query", "processed_rate"))),
                8,
            ),
            panels.lines(
                "How long does routing take?",
                "Time spent in the grouping in a batch, all sources together.",
                UNITS["seconds"],
                promql.query(promql.now(metric("batch", "routing"))),
                8,
            ),
            panels.lines(
                "How long was there no batch?",
                "Time since the newest micro-batch was planned. An idle stream has a batch a minute.",
                UNITS["seconds"],
                promql.query(promql.age(metric("query", "batch"))),
                8,
                alert="BatchesStopped",
            ),
            panels.numbers(
                "How long did it take to recover?",
                "From the newest restart until no more messages waited than when the run was stopped.",
                UNITS["seconds"],
                promql.query(promql.now(metric("query", "recovery"))),
                8,
                8,
            ).no_value("Not restarted, or not yet recovered"),
            panels.lines(
                "Do the metrics arrive?",
                "Points that InfluxDB has taken per second.",
                "si: points/s",
                promql.query(promql.rate(metric("influxdb", "written"))),
                8,
            ).no_value("No run writes to InfluxDB"),
            panels.each(
                "stage",
                "Where does a batch's time go?",
                "Duration of each stage of a micro-batch, as Spark's progress names it; addBatch is the work.",
                UNITS["seconds"],
                promql.query(promql.now(metric("stage", "duration"), ["stage"]), ["stage"]),
                12,
                9,
            ),
            panels.each(
                "source",
                "Does one source fall behind?",
                "Messages that wait in each Kafka partition.",
                UNITS["messages"],
                promql.query(promql.now(metric("source", "lag"), ["source"]), ["source"]),
                12,
                9,
            ),
            panels.lines(
                "Is Kafka uneven?",
                "The most messages that arrive in one of the topic's partitions, divided by the mean of all, over the "
                "last minute. 1 is even. Only the producers can mend it: a grouping balances the workers.",
                UNITS["ratio"],
                promql.query(promql.now(metric("query", "partition_skew"))),
                8,
                alert="KafkaPartitionsUneven",
            ),
            panels.each(
                "source",
                "How much arrives in each partition?",
                "Messages that arrived per second in each Kafka partition, over the last minute.",
                UNITS["messages/s"],
                promql.query(promql.now(metric("source", "arrival_rate"), ["source"]), ["source"]),
                8,
            ),
            panels.each(
                "source",
                "How fast does each source fall behind?",
                "By how many messages a second the lag of each Kafka partition grew, over the last minute. Below 0 it "
                "catches up.",
                UNITS["messages/s"],
                promql.query(promql.now(metric("source", "lag_velocity"), ["source"]), ["source"]),
                8,
            ),
            panels.lines(
                "How big is the state?",
                "Rows of open windows in the state store: one for each window, key and worker.",
                UNITS["records"],
                promql.query(promql.now(metric("query", "state_rows"))),
                8,
            ).no_value("No open windows: a keyed work has states"),
            panels.lines(
                "How much memory does the state use?",
                "Memory that the state store uses.",
                UNITS["bytes"],
                promql.query(promql.now(metric("query", "state_memory"))),
                8,
            ),
            panels.band(
                "How large are the workers' states?",
                "Bytes of a keyed work's states at each worker; the tooltip names the worker.",
                UNITS["bytes"],
                promql.query(promql.now(metric("worker_states", "size"), ["worker"]), ["worker"]),
                8,
            ).no_value("No keyed work"),
            panels.lines(
                "How many states does a key have?",
                "If the grouping splits keys: the fragments that workers sent to mergers, per key.",
                UNITS["workers/key"],
                promql.query(promql.now(metric("states", "replication"))),
                8,
            ).no_value("No keyed work whose keys are split"),
            panels.lines(
                "How long do merges take?",
                "Time at work of the slowest merger, where the states of a key become one.",
                UNITS["seconds"],
                promql.query(promql.now(metric("states", "merge"))),
                8,
            ).no_value("No keyed work whose keys are split"),
            panels.each(
                "source",
                "Does a transaction hold messages back?",
                "Messages behind the beginning of an open transaction, in each Kafka partition. They wait for its end.",
                UNITS["messages"],
                promql.query(promql.now(metric("source", "held_back"), ["source"]), ["source"]),
                8,
            ),
        ],
        data_sources=("prometheus",),
    )
