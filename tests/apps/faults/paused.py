"""`unskew` that stops itself, with its JVM, at a place in a batch, as a machine does that is suspended: by SIGSTOP.

`python -m tests.apps.faults.paused PLACE BATCH ARGUMENTS`: it stops once, in the first batch from that number on that
comes by the place.
"""

import os
import signal
import sys
from collections.abc import Callable
from typing import Any

from unskew.apps.aggregator.publisher import ResultPublisher
from unskew.apps.checkpoint.checkpoint import Checkpoint
from unskew.apps.checkpoint.lease import Lease
from unskew.apps.checkpoint.plan_states import PlanStateLog
from unskew.apps.checkpoint.versions import TotalsLog
from unskew.apps.cli.main import main
from unskew.apps.driver.idle import IdleWait

#: Place → class, its method before which it stops, and whether it stops after the method instead.
PLACES: dict[str, tuple[type, str, bool]] = {
    "looked": (Lease, "require", True),  # before the tasks run
    "results": (ResultPublisher, "write", False),
    "totals": (TotalsLog, "write", False),
    "plans": (PlanStateLog, "write", False),
    "idle": (IdleWait, "__call__", False),
    "commit": (Lease, "require", True),  # after the last look of the batch
}


def stop_at(place: str, batch: int) -> None:
    """Stop this process and its JVM at the place."""
    kind, name, after = PLACES[place]
    method, waits = getattr(kind, name), IdleWait.__call__
    seen = {"batch": -1, "stopped": 0, "waited": 0}
    of_batch = Checkpoint.batch

    def batch_of(checkpoint: Checkpoint, number: int) -> Any:
        seen.update(batch=number, waited=0)
        return of_batch(checkpoint, number)

    def waited(idle: IdleWait, *of: Any) -> None:
        waits(idle, *of)
        seen["waited"] = 1

    def stop() -> None:
        here = place != "commit" or seen["waited"]
        if seen["batch"] >= batch and here and not seen["stopped"]:
            seen["stopped"] = 1
            print(f"stops at {place} of batch {seen['batch']}", flush=True)
            os.killpg(0, signal.SIGSTOP)

    def stopping(method: Callable[..., Any]) -> Callable[..., Any]:
        def run(*of: Any, **named: Any) -> Any:
            if after:
                result = method(*of, **named)
                stop()
                return result
            stop()
            return method(*of, **named)

        return run

    Checkpoint.batch = batch_of
    IdleWait.__call__ = waited
    setattr(kind, name, stopping(batch_of if place == "planned" else method))


if __name__ == "__main__":
    place, batch, *arguments = sys.argv[1:]
    stop_at(place, int(batch))
    sys.argv = ["unskew", *arguments]
    main()
