"""All pictures on one page that needs nothing else: it can be mailed, or kept with a run's results."""

from base64 import b64encode
from collections.abc import Mapping
from html import escape
from typing import Any

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
    """The page.

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
