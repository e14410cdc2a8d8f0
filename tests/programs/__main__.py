"""`python -m tests.programs`, which `make servers` runs: get the server programs before the tests that need them.

Where a program can't be had, the reason is printed; that fails only if `$UNSKEW_REQUIRE_SERVERS` says so. `--beside
PID` gets them beside that process: at low priority, and no longer than it lives. `--clouds` also gets emulators of
clouds' stores, and linters.
"""

import argparse
import os
import signal
import sys
import threading
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

from tests.programs import REQUIRED
from tests.programs.influxd import influxd
from tests.programs.packages import actionlint, azurite, compose_reader, fake_gcs, otel_collector
from tests.programs.prometheus import prometheus_programs
from unskew.errors import EnvironmentFault

_NICENESS = 10


def main() -> None:
    """Find, fetch or build each program."""
    parser = argparse.ArgumentParser(prog="python -m tests.programs", description="Get the server programs, once.")
    parser.add_argument("--beside", type=int, metavar="PID", help="at low priority, no longer than this process lives")
    parser.add_argument(
        "--clouds", action="store_true", help="also emulators of clouds, a collector, linters (npm, Go)"
    )
    arguments = parser.parse_args()
    beside = arguments.beside
    if beside is not None:
        os.setpgid(0, 0)
        os.nice(_NICENESS)
        threading.Thread(target=_end_with, args=[beside], daemon=True).start()
    wanted: dict[str, Callable[[], Path]] = {
        "Prometheus": lambda: prometheus_programs().prometheus,
        "InfluxDB": influxd,
    }
    if arguments.clouds:
        packages = {"Azurite": azurite, "fake-gcs-server": fake_gcs}
        packages |= {
            "actionlint": actionlint,
            "compose-go": compose_reader,
            "OpenTelemetry": otel_collector,
        }
        wanted |= {name: partial(get, fetch=True) for name, get in packages.items()}
    missing = 0
    for number, (name, want) in enumerate(wanted.items(), 1):
        begun = time.monotonic()
        print(f"{number} of {len(wanted)}: {name}: found, else fetched or built ...", file=sys.stderr, flush=True)
        try:
            print(want(), flush=True)
        except EnvironmentFault as fault:
            missing += 1
            print(f"unskew: {fault}", file=sys.stderr)
        print(f"{number} of {len(wanted)}: {time.monotonic() - begun:.0f} s", file=sys.stderr, flush=True)
    if missing and REQUIRED:
        sys.exit(EnvironmentFault.exit_code)


def _end_with(process: int) -> None:
    """End this process and the compilers that it started when the other process is gone."""
    while True:
        try:
            os.kill(process, 0)
        except ProcessLookupError:
            os.killpg(0, signal.SIGTERM)
        time.sleep(0.5)


if __name__ == "__main__":
    main()
