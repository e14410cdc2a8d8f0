"""The execution of `unskew topology`: a run with its display, its metrics and its summary."""

import signal
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path

import orjson

from unskew.apps.cli.event_log import EventWriter
from unskew.apps.cli.watchdog import Watchdog
from unskew.apps.driver.topology_handle import TopologyHandle
from unskew.apps.metrics.display import Display, LiveView
from unskew.apps.metrics.metrics_reporter import MetricsReporter
from unskew.apps.metrics.outputs import Destinations, Outputs
from unskew.apps.settings import Settings
from unskew.errors import EnvironmentFault
from unskew.log_format import writes_json


def _open_display(settings: Settings, view: LiveView | None, notice: Callable[[], str]) -> Display | EventWriter:
    """Where a run's progress goes: to a terminal, or a log of events."""
    return EventWriter(settings, notice) if writes_json() else Display(settings, view=view, notice=notice)


def execute_topology(
    settings: Settings,
    destinations: Destinations,
    summary: Path | None,
    *,
    live: bool,
    batch_timeout: float | None = None,
) -> None:
    """Run the topology until it is drained, stopped by a signal, or fails. Then print its summary, and save it.

    Parameters
    ----------
    settings : Settings
        What to run.
    destinations : Destinations
        Where the metrics go.
    summary : Path or None
        The file to save the summary to (JSON). None: it isn't saved.
    live : bool
        Whether the display shows workers, balance, rate, lag and hot keys.
    batch_timeout : float, optional
        After how many seconds without a batch the process ends, with exit code 4. Default: never.

    Raises
    ------
    EnvironmentFault
        As ``unskew.apps.driver.streaming_job.StreamingJob``, or the summary can't be written.
    LeaseLost
        Another driver has taken over the checkpoint.

    """
    view = LiveView(settings) if live else None
    with Outputs(destinations) as outputs, _open_display(settings, view, lambda: outputs.losses) as display:
        if outputs.exporter is not None:
            display.note(f"metrics for Prometheus: {outputs.exporter.url}")
        if settings.location.scheme != (given := settings.checkpoint.partition(":")[0]) and given in {"s3", "s3n"}:
            display.note(f"the checkpoint {settings.checkpoint} is {settings.location} here, by Hadoop's class for S3")
        monitor = MetricsReporter(settings, outputs)
        listeners, followers = [monitor.batch], [monitor.progress]
        if view is not None:
            listeners.append(view.batch)
            followers.append(view.progress)
        watchdog = Watchdog(batch_timeout, lambda: run.has_begun)
        run = TopologyHandle(settings, [*listeners, display.batch], [*followers, watchdog.progress])
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, lambda *_: (run.stop(), display.show_stop()))
        display.target(run.end_offset_sum)
        with watchdog:
            run.wait()
    if run.outcome is None:
        return
    result = run.balance()
    display.summary(result, run.outcome, run.topics)
    if outputs.balance:
        (display.note if writes_json() else print)(outputs.balance)
    if summary is not None:
        try:
            summary.write_bytes(orjson.dumps(asdict(result), option=orjson.OPT_INDENT_2))
        except OSError as error:
            raise EnvironmentFault(f"the summary can't be written to {summary} ({error.strerror})") from error
