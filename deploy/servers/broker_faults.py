"""What the embedded broker's log says of its failure to start, in one line with what to do."""

import re

_KNOWN = (
    (r"Address already in use", "its port is in use by another program; stop that, or choose another port"),
    (r"No space left on device", "no space is left on the disk; make room, or choose another directory"),
    (r"AccessDeniedException|Permission denied", "its directory isn't writable; choose another one"),
    (r"OutOfMemoryError|Could not reserve enough space", "there isn't enough memory; end other programs"),
)


def explain(said: str) -> str:
    """Why the broker failed, from what its log says of that."""
    for pattern, meaning in _KNOWN:
        if re.search(pattern, said):
            return meaning
    # The first cause is told before its consequences; a line that only announces a stack trace is no cause.
    complaints = re.findall(r"^.*?\b(?:ERROR|FATAL|Exception in thread \S+|Caused by:)\s+(.+)$", said, re.MULTILINE)
    cause = complaints[0].strip() if complaints else (said.strip().splitlines() or ["it said nothing"])[-1]
    return cause[:300]
