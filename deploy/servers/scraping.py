"""Telling the stack's Prometheus which processes of this machine it shall scrape."""

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager

from unskew.deploy.servers.ports import LOOPBACK
from unskew.deploy.servers.stack import running, targets


@contextmanager
def scraped(port: int) -> Iterator[None]:
    """Inside the block, `/metrics` on this machine's `port` is scraped by the stack's Prometheus, if that runs.

    A process that is killed inside stays listed until another one is, so that it shows as down.
    """
    if running("prometheus") is None:
        yield
        return
    for file in targets().glob("*.json"):
        if not _lives(int(file.stem)):
            file.unlink(missing_ok=True)
    own = targets() / f"{os.getpid()}.json"
    new = own.with_suffix(".new")
    new.write_text(json.dumps([{"targets": [f"{LOOPBACK}:{port}"]}]))
    new.replace(own)
    try:
        yield
    finally:
        own.unlink(missing_ok=True)


def _lives(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass
    return True
