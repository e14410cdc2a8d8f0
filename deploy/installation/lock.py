"""`make lock`: write `requirements.lock`, the newest versions that fit together, for every platform, with their hashes.

uv chooses: pip's own choice holds for one platform and one Python only. No address is written: that would tie the file
to one index.
"""

import subprocess

from unskew.deploy.installation.packages import LOCK

_HEADER = "# Written by `make lock` from pyproject.toml, installed by `make setup`.\n"


def lock() -> None:
    """Let uv choose, as for an empty environment, and write its choice down."""
    choose = ("--universal", "--generate-hashes", "--upgrade", "--no-header", "--no-annotate", "--no-emit-index-url")
    project = LOCK.with_name("pyproject.toml")
    extras = ("--extra", "dev", "--no-emit-package", "unskew")
    command = ("uv", "pip", "compile", "--quiet", *choose, *extras, str(project))
    chosen = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    LOCK.write_text(_HEADER + chosen)
    print(f"wrote {chosen.count('==')} pins to {LOCK}")


if __name__ == "__main__":
    lock()
