"""The drawn dashboards as files: a picture each, and one page with all of them.

The page needs no other file, so it can be mailed, or kept with a run's results.
"""

from base64 import b64encode
from collections.abc import Iterable, Iterator, Mapping, Sequence
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
    """A dashboard's picture."""

    name: str  #: The dashboard's name.
    file: Path  #: The picture.
    panels: int  #: How many panels it has.
    empty: list[str]  #: Titles of the panels whose queries found no data.
    undrawn: dict[str, str]  #: Title → reason, for the panels that the preview can't draw.


def save(
    names: Iterable[str], sources: DataSources, selection: Selection, folder: Path, reload: int = 0
) -> Iterator[Saved]:
    """Run the panels' queries, draw and write one dashboard after the other, and write the page at the end.

    ``reload`` is after how many seconds a browser loads the page anew; 0: never.

    Raises ``EnvironmentFault`` if a server doesn't answer, or the folder can't be written.
    """
    known = checked_in.dashboards()
    pictures: dict[str, bytes] = {}
    values: dict[str, list[str]] = {}
    for name in names:
        panels = [Panel.of(spec, sources, selection) for spec in known[name]["panels"]]
        pictures[name] = draw(known[name], panels, sources.marks(known[name], selection), selection)
        values[name] = [panel.text for panel in panels]
        file = folder / f"{name}.png"
        _write(file, pictures[name])
        drawn = [panel for panel in panels if not panel.undrawable]
        undrawn = {panel.title: panel.undrawable for panel in panels if panel.undrawable}
        yield Saved(name, file, len(panels), [panel.title for panel in drawn if panel.empty], undrawn)
    _write(folder / PAGE, html(known, pictures, values, reload).encode())


def _write(file: Path, content: bytes) -> None:
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        # A browser that loads it meanwhile gets the one before.
        new = file.with_name(f".{file.name}.new")
        new.write_bytes(content)
        new.replace(file)
    except OSError as error:
        raise EnvironmentFault(f"can't write {file}: {error.strerror}") from error


_STYLE = """
:root { color-scheme: light dark; --paper: #f4f5f5; --ink: #222; --bar: #fff; --line: #ddd; --link: #0060a0; }
@media (prefers-color-scheme: dark) {
  :root { --paper: #141619; --ink: #ddd; --bar: #1f2227; --line: #3a3d42; --link: #7cc4ff; }
  img { filter: invert(0.92) hue-rotate(180deg); }
}
body { margin: 0; background: var(--paper); color: var(--ink); font: 15px/1.5 system-ui, sans-serif; }
nav { position: sticky; top: 0; z-index: 1; padding: 0.6em 1em; background: var(--bar);
  border-bottom: 1px solid var(--line); }
nav a { display: inline-block; margin-right: 1.5em; color: var(--link); }
:focus-visible { outline: 3px solid var(--link); outline-offset: 2px; }
section { max-width: 1600px; margin: 0 auto 2em; scroll-margin-top: 3em; }
.picture { overflow-x: auto; }
img { width: 100%; min-width: 900px; display: block; }
details { padding: 0 1em; overflow-wrap: anywhere; }
dt { font-weight: 600; margin-top: 0.5em; }
dd { margin: 0; }
@media (max-width: 700px) { nav { position: static; } }
"""


def html(
    dashboards: Mapping[str, Mapping[str, Any]],
    pictures: Mapping[str, bytes],
    values: Mapping[str, Sequence[str]],
    reload: int,
) -> str:
    """The page with all pictures (PNG), each with what its panels show as text."""
    links = "".join(f'<a href="#{name}">{escape(dashboards[name]["title"])}</a>' for name in pictures)
    sections = "".join(_section(name, dashboards[name], each, values[name]) for name, each in pictures.items())
    again = f'<meta http-equiv="refresh" content="{reload}">' if reload else ""
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><title>unskew: dashboards</title>'
        f'<meta name="viewport" content="width=device-width, initial-scale=1">{again}'
        f'<style>{_STYLE}</style></head><body><nav aria-label="Dashboards">{links}</nav>'
        f"<main>{sections}</main></body></html>\n"
    )


def _section(name: str, dashboard: Mapping[str, Any], picture: bytes, values: Sequence[str]) -> str:
    title = escape(dashboard["title"])
    meanings = "".join(
        f"<dt>{escape(panel['title'])}</dt><dd>{escape(panel['description'])}</dd>"
        + (f"<dd>{escape(text)}</dd>" if text else "")
        for panel, text in zip(dashboard["panels"], values, strict=True)
    )
    alternative = f"{title} {len(dashboard['panels'])} panels; their numbers are in the text below the picture."
    # A narrow window scrolls a picture rather than the page, by keys too.
    return (
        f'<section id="{name}" aria-label="{title}"><div class="picture" tabindex="0" role="group" '
        f'aria-label="{title} Picture"><img alt="{alternative}" '
        f'src="data:image/png;base64,{b64encode(picture).decode()}"></div>'
        f"<details><summary>What the panels show</summary><dl>{meanings}</dl></details></section>"
    )
