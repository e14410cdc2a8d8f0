"""What one process with a dictionary tells of a stream of a ``Tally``."""

from collections import Counter

WINDOW, TTL = 40, 60

#: Whose state: window (0 where states outlive them) and key.
Place = tuple[int, str]


class OneProcess:
    """All states in one place.

    By event time they live for a window, by batch time for a TTL.
    """

    def __init__(self, event: bool) -> None:
        self.event = event
        self.open: dict[Place, list[int]] = {}
        self.last: dict[Place, int] = {}
        self.closed = 0  # the watermark of the batch before
        self.settled: dict[Place, tuple[int, int]] = {}  # of the keys of this batch, where they stand
        self.finished: Counter = Counter()  # of all that have left, what they were

    def batch(self, beat, tuples):
        """Take in a batch's (key, value, ms)."""
        if not self.event:
            self._leave(lambda place: self.last[place] + TTL <= beat.batch_ms)
        touched = set()
        for key, value, ms in tuples:
            window = ms // WINDOW * WINDOW if self.event else 0
            if not self.event or window + WINDOW > self.closed:
                self.open.setdefault((window, key), []).append(value)
                self.last[window, key] = ms
                touched.add((window, key))
        self.settled = {place: (len(self.open[place]), sum(self.open[place])) for place in touched}
        if self.event:
            self._leave(lambda place: place[0] + WINDOW <= beat.watermark_ms)
            self.closed = beat.watermark_ms

    def _leave(self, over):
        for place in [place for place in self.open if over(place)]:
            values = self.open.pop(place)
            self.finished[place, len(values), sum(values)] += 1
