"""`python -m unskew.deploy.installation.programs`: get the server programs before the tests that need them.

What can't be had is told with the reason; that fails only if `$UNSKEW_REQUIRE_SERVERS` says so.
"""

import sys
from collections.abc import Callable
from pathlib import Path

from unskew.deploy.installation.programs import REQUIRED
from unskew.deploy.installation.programs.influxd import influxd
from unskew.deploy.installation.programs.prometheus import prometheus_programs
from unskew.errors import EnvironmentFault


def main() -> None:
    """Find, fetch or build each program."""
    wanted: tuple[Callable[[], Path], ...] = (influxd, lambda: prometheus_programs().prometheus)
    missing = 0
    for want in wanted:
        try:
            print(want(), flush=True)
        except EnvironmentFault as fault:
            missing += 1
            print(f"unskew: {fault}", file=sys.stderr)
    if missing and REQUIRED:
        sys.exit(EnvironmentFault.exit_code)


if __name__ == "__main__":
    main()
