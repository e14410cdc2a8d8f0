"""`unskew reproduce`: the papers' experiments, which are in the repository and not in the package."""

import sys
from collections.abc import Callable
from importlib.util import module_from_spec, spec_from_file_location

from unskew.deploy.home import checkout
from unskew.errors import EnvironmentFault


def _found() -> Callable[..., None]:
    root = checkout()
    folder = root / "reproduction" if root else None
    if folder is None or not folder.exists():  # an image is a checkout without it
        return _missing
    # By its place, not by a path for imports: that would make our folders importable under a second name.
    spec = spec_from_file_location("reproduction", folder / "__init__.py", submodule_search_locations=[str(folder)])
    assert spec
    assert spec.loader
    sys.modules.setdefault("reproduction", module_from_spec(spec))
    from reproduction.command import reproduce

    return reproduce


def _missing() -> None:
    """Run the papers' experiments again: they are in the repository, not in the installed package."""
    raise EnvironmentFault(
        "the papers' experiments are in the project's repository, not in the installed package: "
        "clone it, run `make setup` and then `unskew reproduce` there"
    )


reproduce = _found()
