"""Python of the bundle: imported from the reviewed bytes only, whenever it is imported, and under its own name."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Mapping
from importlib.machinery import FileFinder, PathFinder, SourceFileLoader
from pathlib import Path
from types import CodeType, ModuleType
from typing import Any

from .store import sha256

_digests: dict[str, str] = {}
"""The digest that each file must have, by its path."""
_roots: set[Path] = set()


class NotReviewed(ImportError):
    """These bytes are not those that people consented to."""


class Loader(SourceFileLoader):
    """Compiles what was reviewed; a compiled file beside it counts for nothing."""

    def get_code(self, fullname: str) -> CodeType | None:
        """The module's code, after a look at its bytes."""
        path = self.get_filename(fullname)
        source = self.get_data(path)
        if sha256(source) != _digests.get(path):
            raise NotReviewed(f"{Path(path).name} is not what was reviewed", name=fullname, path=path)
        return self.source_to_code(source, path)


def know(directory: Path, digests: Mapping[str, str]) -> None:
    """Let Python import from a directory what has these digests, and nothing else."""
    root = directory.parent
    if root not in _roots:
        _roots.add(root)
        sys.path_hooks.insert(0, _finder(root))
    _digests.update({str(directory / path): digest for path, digest in digests.items()})
    for place in [place for place in sys.path_importer_cache if Path(place).is_relative_to(directory)]:
        del sys.path_importer_cache[place]


def _finder(root: Path) -> Any:
    def hook(place: str) -> FileFinder:
        if not Path(place).is_relative_to(root):
            raise ImportError
        return FileFinder(place, (Loader, [".py"]))

    return hook


def load(point: str, directory: Path) -> Any:
    """What the entry point of a wheel names, from this directory whatever else is installed.

    Code in a wheel imports itself by its absolute name, so it gets that name. An earlier version of the bundle's is
    forgotten first; a package of the agent's own is left alone, because Hermes may be using it.
    """
    dotted, _, attribute = (part.strip() for part in point.partition(":"))
    top = dotted.split(".", 1)[0]
    _make_room(top, directory)
    sys.path.insert(0, str(directory))
    try:
        found: Any = importlib.import_module(dotted)
        if not _is_below(found, directory):
            raise ImportError(f"{dotted} is not among the plugin's files")
        for name in filter(None, attribute.split(".")):
            found = getattr(found, name)
    except BaseException:
        _forget(top)
        sys.path.remove(str(directory))
        raise
    return found


def _make_room(top: str, directory: Path) -> None:
    bundles = directory.parent
    known = sys.modules.get(top)
    outside = [place for place in sys.path if Path(place).parent != bundles]
    if (known is not None and not _is_below(known, bundles)) or PathFinder.find_spec(top, outside) is not None:
        raise ImportError(f"the agent already has a package {top}, which is not the plugin's")
    if known is not None:
        _forget(top)
        sys.path[:] = [place for place in sys.path if place in outside or not _is_below(known, Path(place))]


def _is_below(module: ModuleType, directory: Path) -> bool:
    places = [getattr(module, "__file__", None), *getattr(module, "__path__", ())]
    return any(Path(place).is_relative_to(directory) for place in places if place)


def _forget(top: str) -> None:
    for name in [name for name in sys.modules if name == top or name.startswith(f"{top}.")]:
        del sys.modules[name]
