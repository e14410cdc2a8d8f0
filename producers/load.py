"""What `unskew produce` does with the records that were asked for: send them, or show what they are."""

from rich.console import Console

from unskew.deploy.client.connection import Connection
from unskew.producers.dataset import Dataset
from unskew.producers.dry_run import measure, statistics_table
from unskew.producers.interrupt import stop_on_signal
from unskew.producers.journal import Journal
from unskew.producers.load_bar import LoadProgress
from unskew.producers.pace import Pace
from unskew.producers.partitioning import Partitioner
from unskew.producers.publish import publish
from unskew.producers.readers.rejects import Rejects
from unskew.producers.summary import DeliveryFault


def load(
    connection: Connection,
    topic: str,
    dataset: Dataset,
    rejects: Rejects,
    *,
    pace: Pace,
    partitioner: Partitioner | None,
    resume: bool,
) -> bool:
    """Publish with progress and a summary; False if the user stopped it.

    Every load that can be read a second time keeps a journal, so that any can be resumed.
    """
    output = Console()
    journal = Journal(topic, dataset) if resume or dataset.identity() is not None else None
    if journal and resume and journal.load() and journal.finished:
        output.print(f"all of {dataset.name} is in {topic} already: nothing to resume", soft_wrap=True, highlight=False)
        return True
    with stop_on_signal() as stopped, _progress(dataset) as progress:
        try:
            summary = publish(
                connection,
                topic,
                dataset,
                pace=pace,
                partitioner=partitioner,
                progress=progress.update,
                complain=progress.say,
                stopped=stopped,
                journal=journal,
                resume=resume,
            )
        except DeliveryFault as fault:
            output.print(fault.summary.table())
            raise
    output.print(summary.table())
    rejects.show(output)
    if summary.interrupted and journal:
        output.print("To go on later: the same command with --resume", highlight=False)
    return not summary.interrupted


def show(dataset: Dataset, rejects: Rejects) -> bool:
    """Print the first messages and the statistics; False if the user stopped it."""
    output = Console()
    with stop_on_signal() as stopped, _progress(dataset) as progress:
        found = measure(dataset, progress=progress.update, stopped=stopped)
    for message in found.first:
        print(message.decode(errors="replace"))
    output.print(statistics_table(dataset, found))
    rejects.show(output)
    return not stopped()


def _progress(dataset: Dataset) -> LoadProgress:
    return LoadProgress(dataset.name, dataset.records, Console(stderr=True), dataset.done)
