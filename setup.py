"""What `pyproject.toml` can't say: the long description, which is the README with absolute links and pictures.

An index shows it far from the repository, where relative links lead nowhere. They lead to the tag of this version, at
the address that `project.urls` has.
"""

import re
import tomllib
from pathlib import Path

from setuptools import setup

_ROOT = Path(__file__).parent
_LINK = re.compile(r"(?P<picture>!?)\[(?P<text>[^]]*)\]\((?![a-z]+:|#)(?P<path>[^)\s]+)\)")


def absolute(text: str, files: str) -> str:
    """Markdown whose relative links lead to `files`, an address whose ``{}`` is ``blob`` or, for a picture, ``raw``."""

    def link(found: re.Match[str]) -> str:
        kind = "raw" if found["picture"] else "blob"
        return f"{found['picture']}[{found['text']}]({files.format(kind)}/{found['path']})"

    return _LINK.sub(link, text)


_project = tomllib.loads((_ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
_files = f"{_project['urls']['Source']}/{{}}/v{_project['version']}"
setup(
    long_description=absolute((_ROOT / "README.md").read_text(encoding="utf-8"), _files),
    long_description_content_type="text/markdown",
)
