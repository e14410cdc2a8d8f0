"""A campaign of faults against the protocol of transactions alone, without Spark: hundreds of faults in minutes.

    python -m evidence.faults.transactions [--faults N] [--seed N] [--parts N] [--records N] [--without KIND ...]
                                             [--mutant NAME] [--output FOLDER]

Two real brokers have a replica of each partition. Several parts are written at the same time: batch after batch of
records, by `unskew.kafka.transactions`, as tasks and drivers write them. A part has several processes.

A plan drawn from the seed has these faults, in rounds:

* A process is killed (SIGKILL) or stopped (SIGSTOP) before a step of the protocol, or when it has committed. Each step
  of each of three processes comes in each round: a new one, the one that has written the batch before, and one that had
  the part earlier and has been fenced since.
* A process is killed or stopped at a random instant.
* Two or three processes write the same batch at once.
* A broker is killed and started again, or stopped. When it isn't the only controller, its leaders and coordinators move
  to the other broker, and later back.

After a fault another process writes the batch. One in five of these suffers the next fault first. A stopped process
goes on up to three batches later, while another one writes or when that has written. In half of the attempts a process
that is interrupted begins again by itself, as a driver does. Otherwise the batch is given out anew, as a task is.

At the end a plain consumer reads the topic with `isolation.level=read_committed`, and leaves out nothing that it sees
twice. Then come the tables.

A mutant (--mutant) is a wrong protocol, which must be found: one more step, its gap, is added to the plan.

Ctrl-C ends all that was started, and prints the tables so far. Exit code 1: a record was lost or doubled, a transaction
is open, a part was given up because no process could write its batch, a process ended by itself or with a traceback, or
not all faults of the plan came.
"""

import argparse
import os
import random
import shutil
import signal
import sys
import threading
import time
import traceback
from collections import Counter
from collections.abc import Callable
from copy import copy
from dataclasses import replace
from pathlib import Path

from rich.console import Console

from evidence.faults.transactions import writer
from evidence.faults.transactions.brokers import Brokers
from evidence.faults.transactions.check import Verdict, check
from evidence.faults.transactions.plan import KINDS, OF_BROKERS, Fault, plan
from evidence.faults.transactions.protocol import PROTOCOLS, commits_of
from evidence.faults.transactions.tables import show
from evidence.faults.transactions.trial import Tally, Trial
from evidence.faults.transactions.writer import Written
from evidence.speed import processes
from unskew.errors import EnvironmentFault, UserError
from unskew.kafka.topics import ensure_topic
from unskew.kafka.transactions import COMMITS, TransactionalWriter

TOPIC = "transactions"
_PARTITIONS = 4
_WAITING = 1  # faults of brokers that may wait before faults of processes wait, too
_TELL_EVERY = 15.0  # s
_LOOK = 0.2  # s
_WIDTH = 160
_FAULTS, _FAULTS_OF_MUTANTS = 1000, 100


class Campaign:
    """Gives out a plan's faults, those of processes to the parts and those of brokers to a thread of its own.

    ``brokers``: The brokers, which run. ``written``: Where and how parts are written. ``faults``: The plan. ``parts``:
    The number of parts. ``seed``: Of what the plan leaves open. ``log``: It is called with a line about what happens.
    """

    def __init__(
        self, brokers: Brokers, written: Written, faults: list[Fault], parts: int, seed: int, log: Callable[[str], None]
    ) -> None:
        self._brokers, self._written = brokers, written
        self._tells = log
        self._plan = faults[::-1]
        self._waiting: list[Fault] = []  # faults of brokers that aren't over
        self._lock = threading.Lock()
        self._batches = -(-len(faults) // parts)  # of a part, at least
        self._wrong_brokers: list[str] = []
        self._of_brokers: Counter[tuple[str, str, str]] = Counter()
        self._interrupted = False
        self.planned = len(faults)
        self.trials = [
            Trial(part, written, self._deal, self._give_back, lambda part=part: self._goes_on(part), seed, self._log)
            for part in range(parts)
        ]

    def run(self) -> None:
        """Let all faults come; return when all parts are written."""
        threads = [threading.Thread(target=self._try, args=(trial,), daemon=True) for trial in self.trials]
        ending = threading.Event()
        of_brokers = threading.Thread(target=self._suffer, args=(ending,), daemon=True)
        for thread in (*threads, of_brokers):
            thread.start()
        told = time.monotonic()
        while any(thread.is_alive() for thread in threads):
            time.sleep(_LOOK)
            if time.monotonic() - told > _TELL_EVERY:
                told = time.monotonic()
                self._tell()
        ending.set()
        of_brokers.join()
        self._tell()

    def interrupt(self) -> None:
        """Start no more processes, and say nothing more: all of them are going to be ended."""
        self._interrupted = True
        for trial in self.trials:
            trial.interrupted = True

    def tally(self) -> Tally:
        """What happened at all parts, and to the brokers."""
        found = Tally(inflicted=Counter(self._of_brokers), wrong=[*self._wrong_brokers])
        for each in (trial.tally for trial in self.trials):
            for name in ("inflicted", "batches", "outcomes", "began_again", "failures", "wrong", "stuck"):
                setattr(found, name, getattr(found, name) + copy(getattr(each, name)))  # it may be changing now
        return found

    def check(self) -> Verdict:
        """What a plain consumer sees."""
        return check(self._brokers.connection, self._written, [trial.tally.batches for trial in self.trials])

    def _log(self, line: str) -> None:
        if not self._interrupted:
            self._tells(line)

    def _try(self, trial: Trial) -> None:
        try:
            trial.run()
        except Exception:  # noqa: BLE001  the other parts go on
            trial.tally.wrong.append(traceback.format_exc())
            self._log(trial.tally.wrong[-1])

    def _deal(self) -> Fault | None:
        """The next fault of a process, or none now. Faults of brokers that are due before it begin."""
        with self._lock:
            while self._plan and len(self._waiting) <= _WAITING:
                fault = self._plan.pop()
                if fault.kind not in OF_BROKERS:
                    return fault
                self._waiting.append(fault)
        return None

    def _give_back(self, fault: Fault) -> None:
        """Deal a fault once more, when all others have been dealt: the process had written, or a broker was down."""
        if fault.turns > 1:
            with self._lock:
                self._plan.insert(0, replace(fault, turns=fault.turns - 1))

    def _goes_on(self, part: int) -> bool:
        """Whether faults are still to come, or the part lacks batches."""
        return bool(self._plan or self._waiting) or self.trials[part].tally.batches < self._batches

    def _suffer(self, ending: threading.Event) -> None:
        """Inflict the brokers' faults, one after the other."""
        while not ending.wait(_LOOK):
            while self._waiting:
                fault = self._waiting[0]
                try:
                    self._brokers.suffer(fault)
                except EnvironmentFault as error:
                    self._wrong_brokers.append(f"{fault.kind}: {error}")
                    self._log(self._wrong_brokers[-1])
                else:
                    self._of_brokers[fault.kind, "", ""] += 1
                with self._lock:
                    self._waiting.pop(0)

    def _tell(self) -> None:
        tally = self.tally()
        self._log(
            f"{tally.inflicted.total():,} of {self.planned:,} faults, {tally.batches:,} batches, "
            f"{tally.batches * self._written.records:,} records, began again {tally.began_again:,} times"
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--faults", type=int, help=f"default: {_FAULTS:,}, or {_FAULTS_OF_MUTANTS} with a mutant")
    parser.add_argument("--seed", type=int, help="of the plan; default: a random one")
    parser.add_argument("--parts", type=int, default=6, help="written at the same time (6)")
    parser.add_argument("--records", type=int, default=10_000, help="of a batch of a part (10,000)")
    parser.add_argument("--without", nargs="*", default=[], choices=list(KINDS), metavar="KIND", help="leave these out")
    mutants = [name for name in PROTOCOLS if name != TransactionalWriter.__name__]
    parser.add_argument("--mutant", choices=mutants, metavar="NAME", help=f"a wrong protocol: {', '.join(mutants)}")
    parser.add_argument("--output", type=Path, help="a new folder; default: out/faults/transactions-SEED")
    given = parser.parse_args()
    seed = random.randrange(1 << 16) if given.seed is None else given.seed
    faults = given.faults or (_FAULTS_OF_MUTANTS if given.mutant else _FAULTS)
    folder = (given.output or Path("out/faults") / f"transactions-{seed}").absolute()
    console = Console(highlight=False, width=_WIDTH)

    def log(line: str) -> None:
        console.print(f"{time.strftime('%H:%M:%S')} {line}", soft_wrap=True, markup=False)

    processes.adopt_orphans()
    signal.signal(signal.SIGINT, signal.default_int_handler)  # in the background it would be ignored
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    good = False
    try:
        writer.prepare()
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        log(f"seed {seed}, {faults:,} faults, {given.parts} parts; logs and data in {folder}")
        drawn = plan(seed, faults, frozenset(given.without), gap=bool(given.mutant))
        protocol = given.mutant or TransactionalWriter.__name__
        good = _run(folder, drawn, protocol, given.records, given.parts, seed, console, log)
    except KeyboardInterrupt:
        log("interrupted: all is ended")
    except UserError as error:
        log(f"unskew: {error}")
    finally:
        processes.end_all()
    if good:
        for data in folder.glob("kafka-*/records"):  # gigabytes
            shutil.rmtree(data, ignore_errors=True)
    sys.stdout.flush()
    os._exit(not good)  # threads may still run whose processes are gone


def _run(
    folder: Path,
    drawn: list[Fault],
    protocol: str,
    records: int,
    parts: int,
    seed: int,
    console: Console,
    log: Callable[[str], None],
) -> bool:
    """Let the drawn faults come, and print the tables; whether all is as it must be."""
    with Brokers(folder, log) as brokers:
        written = Written(brokers.connection.bootstrap_servers, TOPIC, protocol, records)
        ensure_topic(brokers.connection, TOPIC, _PARTITIONS)
        ensure_topic(brokers.connection, commits_of(TOPIC), parts, COMMITS)
        campaign, verdict = Campaign(brokers, written, drawn, parts, seed, log), None
        began, minutes = time.monotonic(), None
        try:
            campaign.run()
            minutes = (time.monotonic() - began) / 60
            log("a plain consumer reads the topic")
            brokers.settle()
            verdict = campaign.check()
        except KeyboardInterrupt:
            log("interrupted: all is ended")
        except EnvironmentFault as error:
            log(f"unskew: {error}")
        good = show(campaign.tally(), campaign.planned, minutes or (time.monotonic() - began) / 60, verdict, console)
        campaign.interrupt()
        processes.end_all()  # the brokers, too: nobody needs their data
    return good


if __name__ == "__main__":
    main()
