"""The drawn dashboards as files: a picture each, and one page with all of them.

The page needs no other file, so it can be mailed, or kept with a run's results.
"""

from base64 import b64encode
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import Any

from unskew.dashboards import checked_in
from unskew.dashboards.preview.data_sources import DataSources
from unskew.dashboards.preview.drawing import draw
from unskew.dashboards.preview.panels import Panel
from unskew.dashboards.preview.selection import Selection
from unskew.errors import EnvironmentFault

PAGE = "index.html"


@dataclass(frozen=True)
class Saved:
    """A dashboard's picture.

    Attributes
    ----------
    name : str
        The dashboard's name.
    file : Path
        The picture.
    panels : int
        How many panels it has.
    empty : list of str
        Titles of the panels whose queries found no data.
    undrawn : dict
        Title → reason, for the panels that the preview can't draw.

    """

    name: str
    file: Path
    panels: int
    empty: list[str]
    undrawn: dict[str, str]


def save(names: Iterable[str], sources: DataSources, selection: Selection, folder: Path) -> Iterator[Saved]:
    """Run the panels' queries, draw and write one dashboard after the other, and write the page at the end.

    Raises
    ------
    EnvironmentFault
        A server doesn't answer, or the folder can't be written.

    """
    known = checked_in.dashboards()
    pictures: dict[str, bytes] = {}
    for name in names:
        panels = [Panel.of(spec, sources, selection) for spec in known[name]["panels"]]
        pictures[name] = draw(known[name], panels, sources.marks(known[name], selection), selection)
        file = folder / f"{name}.png"
        _write(file, pictures[name])
        drawn = [panel for panel in panels if not panel.undrawable]
        undrawn = {panel.title: panel.undrawable for panel in panels if panel.undrawable}
        yield Saved(name, file, len(panels), [panel.title for panel in drawn if panel.empty], undrawn)
    _write(folder / PAGE, html(known, pictures).encode())


def _write(file: Path, content: bytes) -> None:
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(content)
    except OSError as error:
        raise EnvironmentFault(f"can't write {file}: {error.strerror}") from error


_STYLE = """
body { margin: 0; background: #f4f5f5; color: #222; font: 15px/1.5 system-ui, sans-serif; }
nav { position: sticky; top: 0; padding: 0.6em 1em; background: #fff; border-bottom: 1px solid #ddd; }
nav a { margin-right: 1.5em; color: #0072b2; text-decoration: none; }
section { max-width: 1600px; margin: 0 auto 2em; scroll-margin-top: 3em; }
img { width: 100%; display: block; }
details { padding: 0 1em; }
dt { font-weight: 600; margin-top: 0.5em; }
dd { margin: 0; }
"""


def html(dashboards: Mapping[str, Mapping[str, Any]], pictures: Mapping[str, bytes]) -> str:
    """The page with all pictures.

    Parameters
    ----------
    dashboards : dict
        Name → JSON.
    pictures : dict
        Name → PNG.

    """
    links = "".join(f'<a href="#{name}">{escape(dashboards[name]["title"])}</a>' for name in pictures)
    sections = "".join(_section(name, dashboards[name], picture) for name, picture in pictures.items())
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><title>unskew: dashboards</title>'
        f"<style>{_STYLE}</style></head><body><nav>{links}</nav>{sections}</body></html>\n"
    )


def _section(name: str, dashboard: Mapping[str, Any], picture: bytes) -> str:
    title = escape(dashboard["title"])
    meanings = "".join(
        f"<dt>{escape(panel['title'])}</dt><dd>{escape(panel['description'])}</dd>" for panel in dashboard["panels"]
    )
    return (
        f'<section id="{name}"><img alt="{title}" src="data:image/png;base64,{b64encode(picture).decode()}">'
        f"<details><summary>What the panels show</summary><dl>{meanings}</dl></details></section>"
    )
