"""Sentences that explain a finding, and advise what would help."""

from unskew.apps.diagnosis.findings import FULL, Finding
from unskew.apps.diagnosis.prediction import BALANCED
from unskew.apps.diagnosis.stage_tasks import LOADS

_WORTH = 0.05  # of a stage's time: the least saving worth a change
# Spark's defaults: spark.sql.adaptive.skewJoin.skewedPartition{ThresholdInBytes,Factor}
_AQE_BYTES, _AQE_FACTOR = 256 << 20, 5.0
#: Kind of operator → the call that balances it, with {keys} and {workers}.
_CALLS = {
    "stream join": "balanced_join(left, right, {keys}, {workers}, checkpoint=…, within=…)",
    "state": "keyed_map(df, {keys}, {workers}, operator, checkpoint=…), with an operator that merges partial states",
    "join": "balanced_join(left, right, {keys}, {workers})",
    "group": "balanced_map(df, {keys}, {workers}, work, …) for partial results that a second step merges, or keyed_map",
    "write": "balanced_write(df, …, by={keys}, workers={workers})",
    "window": (
        "A window needs all rows of its partition: add a column to its PARTITION BY, or balance what comes before"
    ),
    "function": "balance(df, {keys}, {workers}) before it",
}
_SCAN = (
    "The tasks would read as much as each other with files that Spark can split and a smaller "
    "spark.sql.files.maxPartitionBytes; of a topic, with minPartitions, or with keys that its partitions share evenly. "
    "If work on each row, not the reading, is what takes long, call repartition(W) before it."
)
#: Cause → what to do about it.
_OTHERS = {
    "executor": (
        "No grouping helps: look at that machine, or let Spark run slow tasks elsewhere, too (spark.speculation)."
    ),
    "garbage collection": "Give the executors more memory (spark.executor.memory), or fewer cores each.",
    "shuffle": "Look at the network and disks of the executors that wrote the shuffle; no grouping helps.",
    "spill": "Give the executors more memory, or each task less to do (spark.sql.shuffle.partitions).",
    "retry": "Look for why the first attempt failed, in the log of its executor.",
    "locality": "Tasks wait less for a slot near their data with a smaller spark.locality.wait; no grouping helps.",
    "start": "Nothing: the first tasks of an executor compile code and start Python. Later stages don't.",
    "scheduling": "The task waited to be started, or its result to be fetched: look at the driver's load.",
    "rows": (
        "Rows of some keys cost more: balance(…, cost=…) takes what each row costs. Or this task had bad luck: look "
        "whether it is slow in every run."
    ),
}


def summarise(found: Finding) -> str:
    """Compare the slowest task's load and time to the median."""
    task = found.slowest
    times = f"takes {(task.finish - task.launch) / 1000:.1f} s, {found.ratios['seconds']:.1f} × the median"
    if found.cause == "skew":
        own, median = getattr(task, found.load), found.medians[found.load]
        has = f"has {found.share:.0%} of all {LOADS[found.load]}, {own:,} (median: {median:,.0f}), and {times}"
    else:
        full = {name: ratio for name, ratio in found.ratios.items() if name in LOADS and ratio > FULL}
        even = f"no task has more than {FULL} × the median's rows or bytes" if not full else "it hasn't more to do"
        has = f"{times}, though {even}"
    by = f" Rows are sent by the hash of {', '.join(found.stage.keys)}." if found.stage.keys else ""
    return f"Task {task.partition} of {found.tasks} {has}. It ran on executor {task.executor} ({task.host}).{by}"


def advise(found: Finding) -> list[str]:
    """What would help, and what wouldn't, in sentences."""
    if found.cause == "executor":
        slow, of = found.executor_stages
        return [f"Executor {found.slowest.executor} is slower in {slow} of {of} stages. {_OTHERS['executor']}"]
    if found.cause != "skew":
        return [_OTHERS[found.cause]]
    if found.saved < _WORTH * found.seconds:
        return [
            f"Nothing would help much: with even tasks it takes {found.predicted:.1f} s, not {found.seconds:.1f} s."
        ]
    if found.kind == "scan":
        return [f"{_SCAN} Then: {_predict(found)}."]
    keys = ", ".join(f'"{key}"' for key in found.stage.keys) or '"KEY"'
    call = _CALLS.get(found.kind, _CALLS["function"])
    named = f"[{keys}]" if len(found.stage.keys) > 1 else keys
    column = found.stage.keys[0] if found.stage.keys else "COLUMN"
    partitions = (
        f"More partitions keep a key's rows together: if the {found.share:.0%} are one key's, they don't help. "
        f"`unskew diagnose TABLE --key {column}` shows its hottest keys."
    )
    return [f"{call.format(keys=named, workers=found.tasks)}: {_predict(found)}.", _advise_aqe(found), partitions]


def _predict(found: Finding) -> str:
    batches = f" in {found.batches} batches" if found.batches else ""
    return (
        f"{found.predicted:.1f} s instead of {found.seconds:.1f} s{batches}, the fullest task {BALANCED} × the mean "
        f"instead of {found.fullest:.1f} ×"
    )


def _advise_aqe(found: Finding) -> str:
    own, median = found.slowest.bytes_read, found.medians["bytes_read"]
    if found.kind == "write":
        return 'AQE divides a hot partition where the rows are shuffled by df.hint("rebalance", COLUMN).'
    if found.kind != "join":
        return "AQE doesn't help: it divides no group."
    if own > _AQE_BYTES and own > _AQE_FACTOR * median:
        return (
            "AQE divides such a partition of a join (spark.sql.adaptive.enabled, spark.sql.adaptive.skewJoin.enabled)."
        )
    return (
        f"AQE leaves it whole: it has {own / 1e6:.0f} MB, and AQE divides a join's partitions from "
        "spark.sql.adaptive.skewJoin.skewedPartitionThresholdInBytes on, by default 256 MB."
    )
