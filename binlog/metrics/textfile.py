"""A file of metrics for the textfile collector of Prometheus's node_exporter."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterable

from binlog.errors import AccessError
from binlog.metrics.exposition import Exposition, expose
from binlog.metrics.families import Family

_MODE = 0o644


def write_textfile(path: str | os.PathLike[str], families: Iterable[Family]) -> None:
    """Replace a file with families in Prometheus's text format.

    path: it should end in `.prom`, because node_exporter reads no other files.
    A reader never sees half of it: it is written beside it under another name, and renamed.  It is not synced, because
    its contents are old after a crash.  Every user may read it.
    Raises: AccessError if it cannot be written.
    """
    path = os.fspath(path)
    folder, name = os.path.split(os.path.abspath(path))
    try:
        fd, new = tempfile.mkstemp(prefix=f".{name}.", suffix=".new", dir=folder)
        try:
            with os.fdopen(fd, "w", encoding="utf-8") as file:
                file.write(expose(families, Exposition.PROMETHEUS))
            os.chmod(new, _MODE)
            os.rename(new, path)
        except BaseException:
            os.unlink(new)
            raise
    except OSError as error:
        raise AccessError(f"{path}: cannot write it: {error.strerror}", errno=error.errno, path=path) from error
