"""A program out of a container image, where an engine answers: seconds, where building it takes minutes.

It is copied, not run in a container: whoever kills or pauses it then meets the server itself, not the engine's client.
The tests have a stand-in for the engine; no real one was at hand where this was written.
"""

import platform
import shutil
import subprocess
from pathlib import Path

_ENGINES = ("docker", "podman")
_PATIENCE = 300  # seconds, for an image of 300 MB


def copied(image: str, name: str, to: Path) -> bool:
    """Copy the program `name` of an image's PATH; whether that was possible.

    Parameters
    ----------
    image
        Fetched by the engine if need be.
    name
        The program.
    to
        The file to make; its directory is made too. After a failure it is no program.
    """
    if platform.system() != "Linux":  # images have Linux' programs
        return False
    to.parent.mkdir(parents=True)
    return any(_copied(engine, image, name, to) for engine in _ENGINES if shutil.which(engine))


def _copied(engine: str, image: str, name: str, to: Path) -> bool:
    print_it = (engine, "run", "--rm", "--entrypoint", "sh", image, "-c", f'cat "$(command -v {name})"')
    try:
        subprocess.run([engine, "info"], capture_output=True, timeout=20, check=True)
        with to.open("wb") as file:
            subprocess.run(print_it, stdout=file, stderr=subprocess.DEVNULL, timeout=_PATIENCE, check=True)
    except (OSError, subprocess.SubprocessError):
        return False
    to.chmod(0o755)
    return True
