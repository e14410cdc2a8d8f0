"""The drawn dashboards as files: a picture each, and one page with all of them."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from unskew.dashboards import checked_in
from unskew.dashboards.preview.chosen import Chosen
from unskew.dashboards.preview.drawing import draw
from unskew.dashboards.preview.page import html
from unskew.dashboards.preview.sources import Sources
from unskew.errors import EnvironmentFault

PAGE = "index.html"


@dataclass(frozen=True)
class Saved:
    """A dashboard's picture.

    Attributes
    ----------
    name : str
        The dashboard's.
    file : Path
        The picture.
    panels : int
        How many it has.
    empty : list of str
        Titles of those whose queries found nothing.

    """

    name: str
    file: Path
    panels: int
    empty: list[str]


def save(names: Iterable[str], sources: Sources, chosen: Chosen, folder: Path) -> Iterator[Saved]:
    """Ask each panel's queries, draw and write the dashboards one after the other, and at the end the page.

    Raises
    ------
    EnvironmentFault
        A server doesn't answer, or the folder can't be written.

    """
    known = checked_in.dashboards()
    pictures: dict[str, bytes] = {}
    for name in names:
        panels = [sources.panel(spec, chosen) for spec in known[name]["panels"]]
        pictures[name] = draw(known[name], panels, sources.marks(known[name], chosen), chosen)
        file = folder / f"{name}.png"
        _write(file, pictures[name])
        yield Saved(name, file, len(panels), [panel.title for panel in panels if panel.empty])
    _write(folder / PAGE, html(known, pictures).encode())


def _write(file: Path, content: bytes) -> None:
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(content)
    except OSError as error:
        raise EnvironmentFault(f"can't write {file}: {error.strerror}") from error
