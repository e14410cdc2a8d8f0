"""The two brokers of a campaign of transactions, and their faults."""

import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Self

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from evidence.faults.leaders import REPLICATED, settle
from evidence.faults.transactions.plan import Fault
from evidence.faults.waiting import await_condition
from unskew.deploy.servers.broker import Broker
from unskew.errors import EnvironmentFault
from unskew.kafka.connection import Connection

#: Several partitions of the topic in which coordinators keep transactions, so that each broker coordinates some parts.
_COORDINATED = {"transaction.state.log.num.partitions": "8"}
_TRANSACTIONS = "__transaction_state"
_MOVED_PATIENCE = 30.0  # s until a broker that has been stopped leads nothing any more
_AFTER_MOVE = 1.0  # s in which batches are committed that the former leader doesn't know
_TRIES = 3
_TIMEOUT = 10.0  # s, of a request to the brokers


class Brokers:
    """Two brokers with a replica of each partition, as a context manager. The first one is the only controller.

    ``folder``: The folder of their logs and data. ``log``: It is called with a line about each fault.
    """

    def __init__(self, folder: Path, log: Callable[[str], None]) -> None:
        self._log = log
        properties = REPLICATED | _COORDINATED
        self.first = Broker(folder / "kafka-1", properties=properties, heap_mb=512)
        self.second = Broker(folder / "kafka-2", properties=properties, heap_mb=512, beside=self.first)
        self._stack = ExitStack()

    def __enter__(self) -> Self:
        """Start them."""
        for broker in (self.first, self.second):
            self._stack.enter_context(broker)
        servers = ",".join(broker.bootstrap_servers for broker in (self.first, self.second))
        self.connection = Connection(servers)
        return self

    def __exit__(self, *_: object) -> None:
        """Stop them."""
        self._stack.close()

    def suffer(self, fault: Fault) -> None:
        """Inflict a fault, undo it, and wait until all is as before: all replicas in sync, and leaders where they were.

        Raises EnvironmentFault: It doesn't become as before.
        """
        broker = self.first if fault.kind.startswith("broker") else self.second
        led, coordinators = self._led(broker)
        began, moved = time.monotonic(), True
        if fault.kind in ("broker", "second"):
            broker.kill()
            time.sleep(fault.hold)
            self._start(broker)
        elif fault.kind == "broker-stopped":
            self._stop(broker, fault.hold)
        else:
            broker.pause()
            try:
                moved = await_condition(lambda: not any(self._led(broker)), _MOVED_PATIENCE)
                time.sleep(_AFTER_MOVE if fault.kind == "former" else fault.hold)
            finally:
                if fault.kind == "former":
                    self._stop(self.first, fault.hold, broker.resume)
                else:
                    broker.resume()
        self.settle()
        if not moved:
            raise EnvironmentFault(f"after {_MOVED_PATIENCE:.0f} s it still led")
        took = f"as before after {time.monotonic() - began:.1f} s"
        self._log(f"{fault.kind}, leader of {led} partitions and {coordinators} of {_TRANSACTIONS}: {took}")

    def settle(self) -> None:
        """Wait until all replicas are in sync, and let leaders be where they were meant to. Raises as ``settle``."""
        settle(self._admin, time.sleep)

    def _stop(self, broker: Broker, seconds: float, meanwhile: Callable[[], None] = lambda: None) -> None:
        broker.pause()
        try:
            meanwhile()
            time.sleep(seconds)
        finally:
            broker.resume()

    def _start(self, broker: Broker) -> None:
        """Start a broker; on a busy machine it may need a second try."""
        for _ in range(_TRIES):
            try:
                broker.start()
            except EnvironmentFault as error:
                self._log(str(error))
            else:
                return

    def _admin(self) -> AdminClient:
        """A new client. It asks the first broker, and not one that is down and that it would wait for."""
        return Connection(self.first.bootstrap_servers).admin()

    def _led(self, broker: Broker) -> tuple[int, int]:
        """How many partitions of topics, and of coordinators' transactions, a broker leads."""
        admin = self._admin()  # a name for it until the answer is here
        try:
            topics = admin.list_topics(timeout=_TIMEOUT).topics
        except KafkaException as error:
            raise EnvironmentFault(f"the brokers don't answer: {error.args[0].str()}") from error
        led = {
            name: sum(each.leader == broker.node_id for each in topic.partitions.values())
            for name, topic in topics.items()
        }
        return sum(count for name, count in led.items() if not name.startswith("__")), led.get(_TRANSACTIONS, 0)
