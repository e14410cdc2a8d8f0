"""What a process and all that it started take, by what they are: CPU and memory."""

from collections.abc import Callable

import psutil

#: What the processes of a run are; a broker among them counts as none.
KINDS: tuple[str, ...] = ("driver", "JVM", "Python workers")


def cpu(root: int | None = None) -> dict[str, float]:
    """Seconds of CPU since each began, of those that have ended too; ``root``: a process' number, ours by default."""
    return _summed(root, lambda process: sum(process.cpu_times()[:4]))


def spent(root: int | None = None) -> float:
    """Those of all kinds together."""
    return sum(cpu(root).values())


def memory(root: int | None = None) -> dict[str, float]:
    """Proportional set size (MiB): what several share is divided among them."""
    return _summed(root, lambda process: process.memory_full_info().pss / 2**20)


def end(root: int) -> None:
    """Kill a process and all that it started (SIGKILL), and wait until they are gone."""
    try:
        process = psutil.Process(root)
        family = [process, *process.children(recursive=True)]
    except psutil.NoSuchProcess:
        return
    for each in family:
        try:
            each.kill()
        except psutil.NoSuchProcess:
            continue
    psutil.wait_procs(family, timeout=30)


def _summed(root: int | None, of: Callable[[psutil.Process], float]) -> dict[str, float]:
    found = dict.fromkeys(KINDS, 0.0)
    first = psutil.Process(root)
    for process in (first, *first.children(recursive=True)):
        try:
            if (kind := _kind(process, first)) is not None:
                found[kind] += of(process)
        except psutil.Error:  # it has ended meanwhile
            continue
    return found


def _kind(process: psutil.Process, first: psutil.Process) -> str | None:
    if process == first:
        return "driver"
    command = process.cmdline()
    if not command or "kafka.Kafka" in command:
        return None
    if command[0].endswith("java"):
        return "JVM"
    return "Python workers" if any("daemon" in part for part in command) else None
