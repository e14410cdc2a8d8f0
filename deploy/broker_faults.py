"""What the embedded broker's log says of its failure to start, in one line with what to do."""

import re
from pathlib import Path

_KNOWN = (
    (r"Address already in use", "its port is in use by another program; stop that, or choose another port"),
    (r"No space left on device", "no space is left on the disk; make room, or choose another directory"),
    (r"AccessDeniedException|Permission denied", "its directory isn't writable; choose another one"),
    (r"OutOfMemoryError|Could not reserve enough space", "there isn't enough memory; end other programs"),
)


def explain(log: Path, start: int, what: str) -> str:
    """One line on why the broker failed.

    Parameters
    ----------
    log, start
        Its log file and the offset in bytes from which on this run wrote it.
    what
        What failed, the line's beginning.
    """
    with log.open("rb") as file:
        file.seek(start)
        text = file.read().decode(errors="replace")
    for pattern, meaning in _KNOWN:
        if re.search(pattern, text):
            return f"{what}: {meaning} (log: {log})"
    # The first cause is told before its consequences; a line that only announces a stack trace is no cause.
    complaints = re.findall(r"^.*?\b(?:ERROR|FATAL|Exception in thread \S+|Caused by:)\s+(.+)$", text, re.MULTILINE)
    cause = complaints[0].strip() if complaints else (text.strip().splitlines() or ["it said nothing"])[-1]
    return f"{what}: {cause[:300]} (log: {log})"
