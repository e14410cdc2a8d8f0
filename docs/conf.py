"""How Sphinx makes the site (`make docs`): the project's Markdown pages, and a reference from the docstrings.

The source directory is the project's root, for pages lie beside the code that they are about. MyST reads them as GitHub
does (CommonMark, its tables and its anchors), so that a page is the same here and there.

Why Sphinx: a link that leads nowhere, and an unknown name in a docstring, are errors of its own. Material for MkDocs is
supported until May 2027, and Zensical, which is to follow it, was not strict when this was chosen.
"""

from collections.abc import Iterator
from dataclasses import MISSING, fields
from importlib import metadata
from pathlib import Path
from typing import Any, ClassVar

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective
from typer.main import get_command
from typer.testing import CliRunner

import unskew
from unskew import GROUPINGS, operators
from unskew.apps.cli.main import app
from unskew.apps.settings import Settings
from unskew.option_style import text_of_option

project = "unskew"
author = "The unskew authors"
version = release = metadata.version("unskew")
root_doc = "docs/index"
exclude_patterns = [".*", "**/.*", "out", "build", "dist", "tests", "src", "*.egg-info"]

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon", "sphinx_design", "sphinx_copybutton"]
myst_enable_extensions = ["colon_fence"]
myst_heading_anchors = 4
autodoc_typehints = "none"  # the docstrings have them
autodoc_member_order = "bysource"
napoleon_google_docstring = False
napoleon_custom_sections = [("Guarantees", "notes_style"), ("Guarantees, for every scheme", "notes_style")]
napoleon_use_param = napoleon_use_rtype = False
default_role = "code"
nitpicky = True
nitpick_ignore_regex = [("py:class", ".*")]  # the types of parameters are words, such as "n keys"

html_theme = "pydata_sphinx_theme"
html_title = f"unskew {version}"
html_theme_options = {"show_prev_next": False, "navbar_align": "left", "secondary_sidebar_items": ["page-toc"]}
html_static_path = html_css_files = ["site.css"]
html_sidebars = {"README": []}  # it has no pages below
html_show_sourcelink = html_copy_source = html_use_index = False
copybutton_prompt_text = r">>> |\.\.\. |\$ "
copybutton_prompt_is_regexp = True

_WIDTH = "76"
_WITH_METHODS = {"KeyedOperator", "MergeableOperator", "Partitioner", "Topology"}


class Help(SphinxDirective):
    """What a command of `unskew` prints for ``--help``: ``{help} kafka start``. No argument: the command itself."""

    optional_arguments = 9

    def run(self) -> list[nodes.Node]:
        """The text, as it is in a terminal."""
        shown = CliRunner().invoke(app, [*self.arguments, "--help"], env={"COLUMNS": _WIDTH, "TERM": "dumb"})
        if shown.exit_code:
            raise self.error(f"unskew {' '.join(self.arguments)}: {shown.output}")
        return [nodes.literal_block(shown.output, shown.output, language="text")]


class Commands(SphinxDirective):
    """All commands of `unskew`, each with its help."""

    def run(self) -> list[nodes.Node]:
        """The help of `unskew` itself, then a section for each command."""
        paths = [[], *_walk_commands(get_command(app), [])]
        return self.parse_text_to_nodes("".join(map(_make_help_section, paths)), allow_section_headings=True)


def _walk_commands(command: Any, path: list[str]) -> Iterator[list[str]]:
    """The paths of a command's subcommands, in their order."""
    for name, subcommand in getattr(command, "commands", {}).items():
        yield [*path, name]
        yield from _walk_commands(subcommand, [*path, name])


def _make_help_section(path: list[str]) -> str:
    """The heading of a command, and the directive with its help."""
    heading = f"{'#' * (1 + len(path))} `{' '.join(['unskew', *path])}`\n\n" if path else ""
    return f"{heading}```{{help}} {' '.join(path)}\n```\n\n"


class SettingsOfTopology(SphinxDirective):
    """The settings that `unskew.Topology` takes by name: default, and the text that the commands' help shows, too."""

    def run(self) -> list[nodes.Node]:
        """A definition list."""
        shown = nodes.definition_list()
        for each in fields(Settings):
            text = text_of_option(each)
            if text is not None and each.default is not MISSING:
                term = nodes.term("", "", nodes.literal(text=f"{each.name} = {each.default!r}"))
                meaning = nodes.definition("", nodes.paragraph(text=text))
                shown += nodes.definition_list_item("", term, meaning)
        return [shown]


class Sections(SphinxDirective):
    """The docstrings of functions and classes. Some classes have their methods, too."""

    paths: ClassVar[dict[str, str]]

    def run(self) -> list[nodes.Node]:
        """A section for each."""
        text = ""
        for name, path in self.paths.items():
            kind = "function" if name.islower() else "class"
            members = "\n   :members:" if name in _WITH_METHODS else ""
            text += f"## `{name}`\n\n```{{eval-rst}}\n.. auto{kind}:: {path}{members}\n```\n\n"
        return self.parse_text_to_nodes(text, allow_section_headings=True)


class Library(Sections):
    """All that `unskew` gives but what the pages of groupings and operators have: functions, then classes."""

    _names = set(unskew.__all__) - {"GROUPINGS", "create", *operators.__all__}
    paths: ClassVar = {name: f"unskew.{name}" for name in sorted(_names, key=lambda name: (name[0].isupper(), name))}


class Operators(Sections):
    """All that `unskew.operators` gives."""

    paths: ClassVar = {name: f"unskew.operators.{name}" for name in operators.__all__}


class Groupings(Sections):
    """All schemes, by their names."""

    paths: ClassVar = {name: f"{scheme.__module__}.{scheme.__qualname__}" for name, scheme in GROUPINGS.items()}


def lead_home(sphinx: Sphinx, error: Exception | None) -> None:
    """Let the site's address lead to its home page, which lies in a folder."""
    if error is None:
        Path(sphinx.outdir, "index.html").write_text(f'<meta http-equiv="refresh" content="0; url={root_doc}.html">\n')


def setup(sphinx: Sphinx) -> dict[str, Any]:
    """Give Sphinx the directives and the first page."""
    sphinx.add_directive("commands", Commands)
    sphinx.add_directive("groupings", Groupings)
    sphinx.add_directive("help", Help)
    sphinx.add_directive("library", Library)
    sphinx.add_directive("operators", Operators)
    sphinx.add_directive("settings", SettingsOfTopology)
    sphinx.connect("build-finished", lead_home)
    return {"parallel_read_safe": True}
