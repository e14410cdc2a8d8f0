"""The trial of one part: its batches, each written by processes that are killed, stopped and woken, or are several."""

import random
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from signal import Signals

from evidence.faults.transactions.plan import Fault
from evidence.faults.transactions.writer import Answer, Gone, Order, Struck, Writer, Written

_STUCK = 300.0  # s without a batch
_HANGING = 15.0  # s after which a transaction that hangs won't end by itself
_LOOK = 0.2  # s
_TRIES = 5  # to strike a process that mustn't come to the step, because a broker is down, say
_MOST_IDLE = 2
_MOST_STOPPED = 3
_USUAL = 0.5  # s that a batch takes, before any was measured
_FRESH = 0.3  # share of the batches that a new process completes
_RETURNED = 0.3  # share of those that a process completes that had the part before
_HANGS = "a transaction hangs"


class StuckError(Exception):
    """The part's batch isn't written, whoever tries."""


@dataclass
class Tally:
    """What happened at a part.

    ``inflicted``: (Kind, role, step) → faults. ``batches``: Batches that were written, as a process said. ``outcomes``:
    What processes said became of their batches. ``began_again``: Times that a process began again with a batch, because
    it was interrupted. ``failures``: What processes said when they gave a batch up, without numbers and names.
    ``wrong``: Errors that no user ought to see, and processes that ended by themselves. ``stuck``: Why a part was given
    up.
    """

    inflicted: Counter[tuple[str, str, str]] = field(default_factory=Counter)
    batches: int = 0
    outcomes: Counter[str] = field(default_factory=Counter)
    began_again: int = 0
    failures: Counter[str] = field(default_factory=Counter)
    wrong: list[str] = field(default_factory=list)
    stuck: list[str] = field(default_factory=list)


@dataclass
class _Absent:
    """A process that stands still, or has been woken and hasn't answered yet."""

    writer: Writer
    wake_at: int  # the batch
    awake: bool = False


class Trial:
    """A part under faults.

    ``part``: Its number. ``written``: Where and how it is written. ``deal``: It is called for the next fault that the
    part is to suffer. None: none for now. ``give_back``: It is called with a fault that couldn't be inflicted.
    ``goes_on``: Whether the part is to write more batches when there is no fault for it. ``seed``: Of what the faults
    leave open. ``log``: It is called with a line about what shouldn't be.
    """

    def __init__(
        self,
        part: int,
        written: Written,
        deal: Callable[[], Fault | None],
        give_back: Callable[[Fault], None],
        goes_on: Callable[[], bool],
        seed: int,
        log: Callable[[str], None],
    ) -> None:
        self._part, self._written = part, written
        self._deal, self._give_back, self._goes_on = deal, give_back, goes_on
        self._log = log
        self._rng = random.Random(f"{seed}-{part}")
        self._current: Writer | None = None  # has written the batch before
        self._idle: list[Writer] = []  # had the part earlier
        self._absent: list[_Absent] = []
        self._all: list[Writer] = []
        self._usual = _USUAL
        self._since = time.monotonic()  # when the last batch was done
        self._hangs_since: float | None = None
        self.tally = Tally()
        self.interrupted = False  # whether all is to end now

    def run(self) -> None:
        """Suffer the faults, and write batches until the end; all processes are ended."""
        try:
            while (fault := self._deal()) is not None or self._goes_on():
                if fault is not None:
                    self._suffer(fault)
                if fault is None or not fault.beside:
                    self._complete()
            self._finish()
        except StuckError as error:
            self.tally.stuck.append(str(error))
            self._log(f"part {self._part} is given up at batch {self.tally.batches}: {error}")
        finally:
            for writer in self._all:
                writer.close()

    def _suffer(self, fault: Fault) -> None:
        """Inflict a fault; where no process comes to its step, or one has written too soon, try again."""
        for attempt in range(_TRIES):
            self._hear_absent()
            # A process that has a producer writes in less than the usual time.
            if self._inflict(replace(fault, instant=fault.instant / 2**attempt)):
                self.tally.inflicted[fault.kind, fault.role if fault.step else "", fault.step] += 1
                return
        self._give_back(fault)

    def _inflict(self, fault: Fault) -> bool:
        if fault.kind in ("two", "three"):
            return self._at_once(3 if fault.kind == "three" else 2, fault)
        writer = self._of(fault.role)
        sign = Signals.SIGKILL if fault.kind.startswith("kill") else Signals.SIGSTOP
        if fault.step:
            writer.write(Order(self.tally.batches, fault.retrying, fault.step, sign, fault.times))
            answer = self._answer(writer)
            if isinstance(answer, Struck):
                self._struck(writer, sign, fault)
                return True
        else:
            writer.write(Order(self.tally.batches, fault.retrying))
            answer = writer.answer(fault.instant * self._usual)
            if answer is None:
                (writer.kill if sign == Signals.SIGKILL else writer.stop)()
                self._struck(writer, sign, fault)
                return True
        self._note(writer, answer)
        return False

    def _struck(self, writer: Writer, sign: Signals, fault: Fault) -> None:
        if sign == Signals.SIGKILL:
            writer.close()
            return
        writer.await_stop()
        self._absent.append(_Absent(writer, self.tally.batches + fault.later))
        if sum(not absent.awake for absent in self._absent) > _MOST_STOPPED:
            self._wake(next(absent for absent in self._absent if not absent.awake))

    def _at_once(self, number: int, fault: Fault) -> bool:
        """Let several processes write the batch at once."""
        writers = [self._of(role) for role in self._rng.sample(["new", "kept", "returned"], number)]
        order = Order(self.tally.batches, fault.retrying)
        for writer in writers:
            writer.write(order)
        for writer in writers:
            self._note(writer, self._answer(writer), order.batch)
        return True

    def _of(self, role: str) -> Writer:
        """A process that has this role, and is nobody's until it has answered."""
        if role == "kept":
            if self._current is None:
                self._complete()
            found, self._current = self._current, None
        elif role == "returned":
            while not self._idle:
                self._complete(fresh=True)
            found = self._idle.pop(self._rng.randrange(len(self._idle)))
        else:
            found = None
        return found or self._new()

    def _new(self) -> Writer:
        if self.interrupted:
            raise StuckError("interrupted")
        self._all = [writer for writer in self._all if not writer.closed]
        self._all.append(Writer(self._part, self._written))
        return self._all[-1]

    def _complete(self, *, fresh: bool = False) -> None:
        """Let a process that nothing happens to write the batch; those are woken whose time has come."""
        batch = self.tally.batches
        while self.tally.batches == batch:
            self._hear_absent()
            writer = self._any(fresh=fresh)
            due = [each for each in self._absent if not each.awake and each.wake_at <= batch]
            meanwhile = [each for each in due if self._rng.random() < 0.5]
            began = time.monotonic()
            writer.write(Order(batch, self._rng.random() < 0.5))
            for absent in meanwhile:
                time.sleep(self._rng.random() * self._usual / 2)
                self._wake(absent)
            answer = self._answer(writer)
            if isinstance(answer, Answer) and answer.outcome == "written" and not meanwhile:
                self._usual += 0.2 * (time.monotonic() - began - self._usual)
            self._note(writer, answer, batch)
            for absent in due:
                self._wake(absent)

    def _any(self, *, fresh: bool) -> Writer:
        """One process or another for a batch."""
        draw = self._rng.random()
        if fresh or draw < _FRESH:
            return self._of("new")
        if self._idle and (draw < _FRESH + _RETURNED or self._current is None):
            return self._of("returned")
        return self._of("kept" if self._current is not None else "new")

    def _finish(self) -> None:
        """Wait for all that were stopped, and write a batch; whoever tries it again must find it."""
        for absent in self._absent:
            self._wake(absent)
        while self._absent:
            self._hear_absent(_LOOK)
            self._look_after()
        self._complete(fresh=True)
        last = self.tally.batches - 1
        for _ in range(_TRIES):
            writer = self._of("new")
            writer.write(Order(last, retrying=True))
            answer = self._answer(writer)
            self._note(writer, answer, last)
            if isinstance(answer, Answer) and answer.done:
                return

    def _wake(self, absent: _Absent) -> None:
        if not absent.awake:
            absent.awake = True
            absent.writer.wake()

    def _hear_absent(self, patience: float = 0.0) -> None:
        """Note what processes have answered that had been stopped."""
        for absent in [each for each in self._absent if each.awake]:
            answer = absent.writer.answer(patience)
            if isinstance(answer, Answer | Gone):
                self._absent.remove(absent)
                self._note(absent.writer, answer, -1)

    def _answer(self, writer: Writer) -> Answer | Struck | Gone:
        """What a process says, which may take as long as a broker is down."""
        while (answer := writer.answer(_LOOK)) is None:
            self._look_after()
        return answer

    def _look_after(self) -> None:
        """Give the part up if it stands still for too long."""
        if time.monotonic() - self._since > _STUCK:
            raise StuckError(f"no batch was written for {_STUCK:.0f} s")

    def _note(self, writer: Writer, answer: Answer | Struck | Gone | None, batch: int | None = None) -> None:
        """Take down an answer, and what the process is from now on; by default it is about the part's batch."""
        tally = self.tally
        if not isinstance(answer, Answer):
            writer.close()
            tally.wrong.append(f"part {self._part}: a process ended by itself")
            self._log(tally.wrong[-1])
            return
        tally.outcomes[answer.outcome] += 1
        tally.began_again += answer.began - 1
        if answer.done:
            if batch is None or batch == tally.batches:
                tally.batches += 1
                self._since, self._hangs_since = time.monotonic(), None
                self._retire(self._current)
                self._current = writer
            else:
                self._retire(writer)
            return
        self._retire(writer)
        if answer.outcome == "wrong":
            tally.wrong.append(f"part {self._part}: {answer.said}")
            self._log(tally.wrong[-1])
        elif answer.outcome == "failed":
            self._failed(answer.said)
        self._look_after()

    def _failed(self, said: str) -> None:
        """Note why a process has given a batch up, and give up the part if its transaction hangs."""
        words = said.partition(":")[0] if said.startswith(_HANGS) else said
        self.tally.failures["".join("…" if each.isdigit() else each for each in words)] += 1
        if said.startswith(_HANGS):
            self._hangs_since = self._hangs_since or time.monotonic()
            if time.monotonic() - self._hangs_since > _HANGING:
                raise StuckError(said)
        time.sleep(_LOOK)

    def _retire(self, writer: Writer | None) -> None:
        """Keep a process that had the part, and end the one that had it longest ago, if there are too many."""
        if writer is not None:
            self._idle.append(writer)
            while len(self._idle) > _MOST_IDLE:
                self._idle.pop(0).close()
