"""The notebooks of `examples/` are kept without outputs, and run as a reader runs them."""

import re

import orjson
import pytest

from tests.pages import ROOT
from tests.reader import Shell, place, shell  # noqa: F401

_FOLDER = ROOT / "examples"
#: Notebook → how many pictures it shows, and what it prints of each grouping.
NOTEBOOKS = {
    "groupings": (2, r"^{} +busiest / mean [\d.]+ in the worst batch, replication [\d.]+$"),
    "topology": (1, r"^{} · 20,000 tuples at [\d,]+/s, STD_DEV "),
}


def test_each_is_run_and_kept_without_outputs():
    assert {path.stem for path in _FOLDER.glob("*.ipynb")} == NOTEBOOKS.keys()
    for name in NOTEBOOKS:
        notebook = orjson.loads((_FOLDER / f"{name}.ipynb").read_bytes())
        code = [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]
        assert code
        assert not [cell["source"] for cell in code if cell["outputs"] or cell["execution_count"]]


@pytest.mark.slow
@pytest.mark.nightly(group="documents")
@pytest.mark.spark
@pytest.mark.takes(120)
@pytest.mark.parametrize("name", NOTEBOOKS)
def test_it_runs(name, place, shell: Shell):
    nbclient = pytest.importorskip("nbclient", reason="nbclient is not installed; `make setup` does it")
    nbformat = pytest.importorskip("nbformat")
    pytest.importorskip("ipykernel")
    notebook = nbformat.read(_FOLDER / f"{name}.ipynb", as_version=4)
    resources = {"metadata": {"path": str(place)}}
    client = nbclient.NotebookClient(notebook, timeout=400, kernel_name="python3", resources=resources)
    client.execute(env=shell.variables)
    outputs = [output for cell in notebook.cells if cell.cell_type == "code" for output in cell.outputs]
    pictures, printed = NOTEBOOKS[name]
    assert sum("image/png" in output.get("data", {}) for output in outputs) == pictures
    text = "".join(output.text for output in outputs if output.output_type == "stream")
    for grouping in ("KEY", "PARTIAL_KEY", "PLANNED"):
        assert re.search(printed.format(grouping), text, re.MULTILINE), text
