"""Families of samples, and the text formats in which systems read them.

The rules are those of OpenMetrics 1.0: a counter's samples end in `_total`, and a family with a unit ends in that unit.
The formats are OpenMetrics 1.0, and version 0.0.4 of Prometheus.  prometheus_client writes both too, but importing it
takes longer than reading the headers of a thousand files.
"""

from __future__ import annotations

import enum
import os
from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from binlog.errors import AccessError

_TEXTFILE_MODE = 0o644


class Kind(enum.Enum):
    """The kind of a family's values.  COUNTER: it only grows, unless the log is replaced.  GAUGE: it may fall."""

    COUNTER = "counter"
    GAUGE = "gauge"


class Sample(NamedTuple):
    """A value, and the labels that tell it from the others of its family."""

    labels: Mapping[str, str]
    value: float


class Family:
    """Samples of one meaning.

    name: without the `_total` of a counter.  text: one line.
    unit: `bytes` or `seconds`, with which the name ends; empty if there is none.
    """

    def __init__(self, name: str, kind: Kind, text: str, unit: str = "") -> None:
        self.name = name
        self.kind = kind
        self.text = text
        self.unit = unit
        self.samples: list[Sample] = []

    @property
    def sample_name(self) -> str:
        """The name of the samples."""
        return f"{self.name}_total" if self.kind is Kind.COUNTER else self.name

    def add(self, value: float | None, **labels: str) -> None:
        """Add a sample, unless its value is unknown."""
        if value is not None:
            self.samples.append(Sample(labels, value))


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
    # Imported here, because it takes milliseconds, and only a textfile needs it.
    import tempfile

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
