"""The papers' tables and figures, done again: ``python -m evidence.papers --help``."""

import sys

import typer

from evidence.papers.command import reproduce
from unskew.errors import UserError

if __name__ == "__main__":
    app = typer.Typer(pretty_exceptions_enable=False)
    app.command()(reproduce)
    try:
        app(prog_name="python -m evidence.papers")
    except UserError as error:
        print(f"evidence.papers: {error}", file=sys.stderr)
        sys.exit(error.exit_code)
