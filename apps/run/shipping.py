"""Our package for executors: their Python has the libraries, not us."""

import os
import zipfile
from collections.abc import Mapping
from importlib import resources
from importlib.util import cache_from_source
from pathlib import Path

_ARCHIVE = "unskew.zip"
_PATH = "spark.executorEnv.PYTHONPATH"


def path(conf: Mapping[str, str]) -> dict[str, str]:
    """Spark's settings that let executors start their Python from the archive: it is there before their first task."""
    return {_PATH: os.pathsep.join([_ARCHIVE, *filter(None, [conf.get(_PATH)])])}


def pack(folder: Path) -> Path:
    """Write the archive for ``SparkContext.addPyFile`` to the folder: our sources, and what they are compiled to here.

    An executor's Python of another version doesn't look at what is compiled; nor does any if the source is another one.
    """
    archive = folder / _ARCHIVE
    root = Path(str(resources.files("unskew")))
    with zipfile.ZipFile(archive, "w") as packed:
        for parent, _, names in os.walk(root, followlinks=True):  # in a checkout the packages are links
            for file in (Path(parent, name) for name in sorted(names) if name.endswith(".py")):
                name, compiled = file.relative_to(root.parent), Path(cache_from_source(str(file)))
                packed.write(file, name)
                if compiled.is_file():
                    packed.write(compiled, name.with_suffix(".pyc"))
    return archive
