"""Text formats of metrics: OpenMetrics 1.0, and version 0.0.4 of Prometheus, as text or in a file.

prometheus_client writes both too, but importing it takes longer than reading the headers of a thousand files.
"""

from __future__ import annotations

import enum
import os
import tempfile
from collections.abc import Iterable, Iterator

from binlog.errors import AccessError
from binlog.metrics.families import Family, Kind

_TEXTFILE_MODE = 0o644


class Exposition(enum.Enum):
    """A text format, by its content type."""

    OPENMETRICS = "application/openmetrics-text; version=1.0.0; charset=utf-8"
    PROMETHEUS = "text/plain; version=0.0.4; charset=utf-8"


def expose(families: Iterable[Family], exposition: Exposition = Exposition.OPENMETRICS) -> str:
    """Return families in a text format.  Families without samples are left out; no sample has a time stamp."""
    lines = [line for family in families if family.samples for line in _lines(family, exposition)]
    if exposition is Exposition.OPENMETRICS:
        lines.append("# EOF")
    return "".join(f"{line}\n" for line in lines)


def write_textfile(path: str | os.PathLike[str], families: Iterable[Family]) -> None:
    """Replace a file with families in Prometheus's text format, for the textfile collector of node_exporter.

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
            os.chmod(new, _TEXTFILE_MODE)
            os.rename(new, path)
        except BaseException:
            os.unlink(new)
            raise
    except OSError as error:
        raise AccessError(f"{path}: cannot write it: {error.strerror}", errno=error.errno, path=path) from error


def _lines(family: Family, exposition: Exposition) -> Iterator[str]:
    is_open = exposition is Exposition.OPENMETRICS
    name = family.name if is_open else family.sample_name
    yield f"# HELP {name} {_escaped(family.text, quotes=is_open)}"
    yield f"# TYPE {name} {family.kind.value}"
    if is_open and family.unit:
        yield f"# UNIT {name} {family.unit}"
    for labels, value in family.samples:
        pairs = ",".join(f'{key}="{_escaped(text, quotes=True)}"' for key, text in labels.items())
        yield f"{family.sample_name}{f'{{{pairs}}}' if pairs else ''} {_number(value, family.kind)}"


def _escaped(text: str, *, quotes: bool) -> str:
    text = text.replace("\\", "\\\\").replace("\n", "\\n")
    text = text.replace('"', '\\"') if quotes else text
    # A path may have bytes that are not UTF-8, which Python keeps as lone surrogates.
    return text.encode("utf-8", "backslashreplace").decode()


def _number(value: float, kind: Kind) -> str:
    # Times in seconds since 1970 need 16 digits; `repr` gives as many as there are.
    return str(value) if isinstance(value, int) else repr(float(value))
