"""The `unskew` command, which says what is missing if only the library is installed."""

import sys


def main() -> None:
    """Run `unskew.apps.cli.main`, which needs the extra `app`."""
    try:
        from unskew.apps.cli.main import main as run
    except ModuleNotFoundError as error:
        if (error.name or "").startswith("unskew"):
            raise
        print(
            f"unskew: the command needs {error.name}, which is not installed; `pip install 'unskew[app]'` brings all "
            "that it needs (without the extra, unskew is the library alone)",
            file=sys.stderr,
        )
        sys.exit(1)
    run()
