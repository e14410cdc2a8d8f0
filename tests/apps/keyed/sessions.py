"""The sessions of the stream of ``tests.harness.topology``: how a topology is asked for them, and which there are."""

from collections import Counter, defaultdict

from tests.harness.topology import START, TUPLES

GAP_MS = 400
END = START + TUPLES
SESSIONS = ["--work", "unskew.works:Sessions", "--work-option", f"gap={GAP_MS / 1000}"]

#: Keys move after every batch in which workers' measured times differ: after most.
ALWAYS = ["-g", "theta_max=0", "-g", "window=1"]


def sessions_of(stream):
    """(key, start, last, count) of each session."""
    found, times = set(), defaultdict(list)
    for key, ms, _ in stream:
        times[key].append(ms)
    for key, of in times.items():
        first, n = of[0], 0
        for before, ms in zip([of[0], *of], [*of, END + 10 * GAP_MS], strict=True):
            if ms - before > GAP_MS:
                found.add((key, first, before, n))
                first, n = ms, 0
            n += 1
    return found


def read_sessions(latest):
    return Counter((value["key"], *(value["fields"][n] for n in ("start", "last", "count"))) for value in latest)
