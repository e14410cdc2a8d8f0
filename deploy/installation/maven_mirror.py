"""From where this machine gets its Maven artifacts.

An Ivy settings file named by `$UNSKEW_IVYSETTINGS`, else the mirror in the user's `~/.m2/settings.xml`, else Ivy's own
default.
"""

import os
import xml.etree.ElementTree as ET
from pathlib import Path
from xml.sax.saxutils import quoteattr

from unskew.errors import EnvironmentFault


def ivy_settings(directory: Path) -> Path | None:
    """A settings file for Ivy, written into `directory` if need be; None if Ivy's default will do."""
    if named := os.environ.get("UNSKEW_IVYSETTINGS"):
        path = Path(named).expanduser()
        if not path.is_file():
            raise EnvironmentFault(f"UNSKEW_IVYSETTINGS names {path}, which is no file")
        return path
    mirror = _mirror(Path("~/.m2/settings.xml").expanduser())
    if mirror is None:
        return None
    path = directory / "ivysettings.xml"
    path.write_text(
        '<ivysettings><settings defaultResolver="maven"/><resolvers>'
        f'<ibiblio name="maven" m2compatible="true" root={quoteattr(mirror)}/></resolvers></ivysettings>\n'
    )
    return path


def _mirror(settings: Path) -> str | None:
    # A mirror that needs a password is beyond this: UNSKEW_IVYSETTINGS can say it.
    try:
        mirrors = ET.parse(settings).getroot().iterfind("{*}mirrors/{*}mirror")  # noqa: S314  the user's own file
    except (OSError, ET.ParseError):
        return None
    for mirror in mirrors:
        of = {name.strip() for name in (mirror.findtext("{*}mirrorOf") or "").split(",")}
        if of & {"*", "external:*", "central"} and "!central" not in of:
            return (mirror.findtext("{*}url") or "").strip() or None
    return None
