"""What a load did: the numbers, as a value and as a table."""

from dataclasses import dataclass, field

from rich.table import Table

from unskew.errors import EnvironmentFault
from unskew.producers.keycounts import KeyCounts


@dataclass(frozen=True, slots=True)
class Summary:
    """What ``publish`` did.

    Attributes
    ----------
    dataset, topic : str
        What was sent, and where to.
    partitions : int
        Partitions of the topic; the records are spread evenly over them.
    records : int
        Records that the broker has acknowledged.
    size : int
        Bytes of the messages sent, before compression.
    seconds : float
        From the first message to the last acknowledgement.
    keys : KeyCounts
        How often each key was sent.
    failed : int
        Records that could not be delivered.
    error : str
        Why; empty if all was delivered.
    interrupted : bool
        The user stopped it.

    """

    dataset: str
    topic: str
    partitions: int
    records: int
    size: int
    seconds: float
    keys: KeyCounts = field(repr=False)
    failed: int = 0
    error: str = ""
    interrupted: bool = False

    @property
    def rate(self) -> float:
        """Records a second."""
        return self.records / self.seconds if self.seconds else 0.0

    @property
    def p1(self) -> float:
        """The share of the most frequent key, 0 to 1."""
        return self.keys.top(1)[0][1] / self.keys.total if self.keys.total else 0.0

    def table(self, hottest: int = 5) -> Table:
        """The summary to print, with this many of the most frequent keys."""
        table = Table(title=f"{self.dataset} ▶ {self.topic}", title_justify="left", show_header=False)
        table.add_row("records", f"{self.records:,}" + (" (stopped)" if self.interrupted else ""))
        if self.failed:
            table.add_row("not delivered", f"{self.failed:,}")
        table.add_row("partitions", str(self.partitions))
        table.add_row("bytes", f"{self.size:,}")
        table.add_row("time", f"{self.seconds:.1f} s")
        table.add_row("rate", f"{self.rate:,.0f} records/s, {self.size / max(self.seconds, 1e-9) / 1e6:,.1f} MB/s")
        table.add_row("distinct keys", f"{'≈ ' if self.keys.error else ''}{self.keys.distinct:,}")
        table.add_row("p1", f"{self.p1:.2%}")
        for key, count in self.keys.top(hottest):
            table.add_row(f"  {key}", f"{count:,} ({count / self.keys.total:.2%})")
        return table


class DeliveryFault(EnvironmentFault):
    """Some records were not delivered. The summary says how far the load came."""

    def __init__(self, summary: Summary) -> None:
        super().__init__(
            f"{summary.failed:,} records could not be delivered to topic {summary.topic!r} "
            f"({summary.records:,} were): {summary.error}"
        )
        self.summary = summary
