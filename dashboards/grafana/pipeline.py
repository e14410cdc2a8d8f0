"""Pipeline: does the run keep up with its topic, and where does the time go."""

from unskew.apps.metrics.catalogue import get_metric
from unskew.dashboards.grafana import panels, promql
from unskew.dashboards.grafana.page import page
from unskew.dashboards.grafana.panels import UNITS

#: Rates, lag, durations and state, as Prometheus sees them.
PIPELINE = page(
    "unskew-pipeline",
    "Is it keeping up?",
    "Rates, lag, durations and state of the running topologies. It keeps up while the lag stays flat.",
    # The newest figures.
    [
        panels.numbers(
            "How many messages wait?",
            "Messages in the topic that no micro-batch has taken yet.",
            *panels.now("query", "lag"),
        ),
        panels.numbers(
            "How old is the newest batch?",
            "Time since the newest micro-batch was planned. It grows when the query hangs.",
            UNITS["seconds"],
            promql.query(promql.age(get_metric("query", "batch"))),
        ),
        panels.numbers(
            "How old is the watermark?",
            "Time since the end of the last closed window (the watermark).",
            UNITS["seconds"],
            promql.query(promql.age(get_metric("query", "watermark"))),
        ),
        panels.numbers(
            "How many were invalid?",
            "Messages in the time range that are invalid for the source type.",
            UNITS["messages"],
            promql.query(promql.increase(get_metric("run", "rejected"))),
        ),
        panels.numbers(
            "How many came too late?",
            "Tuples in the time range that came after their window was closed.",
            UNITS["tuples"],
            promql.query(promql.increase(get_metric("run", "late"))),
        ),
        panels.numbers(
            "How many metrics were lost?",
            "Points in the time range that InfluxDB did not take. The stream doesn't wait for InfluxDB.",
            UNITS["records"],
            promql.query(promql.increase(get_metric("influxdb", "lost"))),
            no_value="No run writes to InfluxDB",
        ),
    ],
    # What part goes wrong.
    [
        panels.lines(
            "Does one worker have too much?",
            "The busiest worker's tuples in the batches of five minutes, divided by the mean of all workers. 1 is "
            "ideal. Of several batches between two scrapes, the last one is seen.",
            UNITS["ratio"],
            promql.query(promql.busiest(get_metric("task", "tuples"))),
            alert="LoadImbalanced",
        ),
        panels.lines(
            "What part is invalid?",
            "Messages that are invalid for the source type, as a part of all messages of the last five minutes.",
            "percentunit",
            promql.query(
                promql.part(get_metric("run", "rejected"), get_metric("run", "rejected"), get_metric("run", "tuples"))
            ),
            alert="RejectsRising",
        ),
        panels.lines(
            "What part comes too late?",
            "Tuples that came after their window was closed, as a part of all tuples of the last five minutes.",
            "percentunit",
            promql.query(promql.part(get_metric("run", "late"), get_metric("run", "tuples"))),
            alert="LateRising",
        ),
    ],
    # Whether it keeps up, and how fast it is.
    [
        panels.lines(
            "How many tuples a second?",
            "Tuples routed per second, over the last minute.",
            UNITS["tuples/s"],
            promql.query(promql.rate(get_metric("run", "tuples"))),
        ),
        panels.lines(
            "Is it falling behind?",
            "How long the messages that wait would take, at the newest batch's speed, if no others came. A flat "
            "line: it keeps up.",
            UNITS["seconds"],
            promql.query(promql.catching_up(get_metric("query", "lag"), get_metric("query", "processed_rate"))),
            alert="FallingBehind",
        ),
        panels.lines(
            "How long does a batch take?", "The micro-batch from trigger to commit.", *panels.now("query", "duration")
        ),
    ],
    # What comes in, and what that costs.
    [
        panels.lines(
            "How much arrives?",
            "Messages per second that arrived between the last two triggers.",
            *panels.now("query", "input_rate"),
        ),
        panels.lines(
            "How much can it process?",
            "Messages per second that the last micro-batch processed. If more arrive, the run falls behind.",
            *panels.now("query", "processed_rate"),
        ),
        panels.lines(
            "How long does routing take?",
            "Time spent in the grouping in a batch, all sources together.",
            *panels.now("batch", "routing"),
        ),
    ],
    # What was missing, and for how long.
    [
        panels.lines(
            "How long was there no batch?",
            "Time since the newest micro-batch was planned. An idle stream has a batch a minute.",
            UNITS["seconds"],
            promql.query(promql.age(get_metric("query", "batch"))),
            alert="BatchesStopped",
        ),
        panels.numbers(
            "How long did it take to recover?",
            "From the newest restart until no more messages waited than when the run was stopped.",
            *panels.now("query", "recovery"),
            height=8,
            no_value="Not restarted, or not yet recovered",
        ),
        panels.lines(
            "Do the metrics arrive?",
            "Points that InfluxDB has taken per second.",
            "si: points/s",
            promql.query(promql.rate(get_metric("influxdb", "written"))),
            no_value="No run writes to InfluxDB",
        ),
    ],
    # Batches by stage, and lag by source.
    [
        panels.each(
            "stage",
            "Where does a batch's time go?",
            "Duration of each stage of a micro-batch, as Spark's progress names it; addBatch is the work.",
            *panels.now("stage", "duration", by=["stage"]),
            height=9,
        ),
        panels.each(
            "source",
            "Does one source fall behind?",
            "Messages that wait in each Kafka partition.",
            *panels.now("source", "lag", by=["source"]),
            height=9,
        ),
    ],
    # How even Kafka is.
    [
        panels.lines(
            "Is Kafka uneven?",
            "The most messages that arrive in one of the topic's partitions, divided by the mean of all, over the "
            "last minute. 1 is even. Only the producers can mend it: a grouping balances the workers.",
            *panels.now("query", "partition_skew"),
            alert="KafkaPartitionsUneven",
        ),
        panels.each(
            "source",
            "How much arrives in each partition?",
            "Messages that arrived per second in each Kafka partition, over the last minute.",
            *panels.now("source", "arrival_rate", by=["source"]),
        ),
        panels.each(
            "source",
            "How fast does each source fall behind?",
            "By how many messages a second the lag of each Kafka partition grew, over the last minute. Below 0 it "
            "catches up.",
            *panels.now("source", "lag_velocity", by=["source"]),
        ),
    ],
    # How much is kept.
    [
        panels.lines(
            "How big is the state?",
            "Rows of open windows in the state store: one for each window, key and worker.",
            *panels.now("query", "state_rows"),
            no_value="No open windows: a keyed operator has states",
        ),
        panels.lines(
            "How much memory does the state use?",
            "Memory that the state store uses.",
            *panels.now("query", "state_memory"),
        ),
        panels.band(
            "How large are the workers' states?",
            "Bytes of a keyed operator's states at each worker; the tooltip names the worker.",
            *panels.now("worker_states", "size", by=["worker"]),
            no_value="No keyed operator",
        ),
    ],
    # What else a batch waits for.
    [
        panels.lines(
            "How many states does a key have?",
            "If the grouping splits keys: the fragments that workers sent to mergers, per key.",
            *panels.now("states", "replication"),
            no_value="No keyed operator whose keys are split",
        ),
        panels.lines(
            "How long do merges take?",
            "Time at work of the slowest merger, where the states of a key become one.",
            *panels.now("states", "merge"),
            no_value="No keyed operator whose keys are split",
        ),
        panels.each(
            "source",
            "Does a transaction hold messages back?",
            "Messages behind the beginning of an open transaction, in each Kafka partition. They wait for its end.",
            *panels.now("source", "held_back", by=["source"]),
        ),
    ],
    source="prometheus",
)
