"""Whether a peer's package is installed."""

from __future__ import annotations

import importlib.metadata
import importlib.util
from collections.abc import Callable


def missing_package(module: str, package: str) -> Callable[[], str | None]:
    """Return a function that gives the message if the module cannot be imported."""

    def missing() -> str | None:
        if importlib.util.find_spec(module):
            return None
        return f"{package} is not installed (pip install {package})"

    return missing


def package_version(package: str) -> str | None:
    """Return name and version, or None if it is not installed."""
    try:
        return f"{package} {importlib.metadata.version(package)}"
    except importlib.metadata.PackageNotFoundError:
        return None
