"""Templates: a line of text with the fields of a record in it, as `{time} {level} {body}`."""

from __future__ import annotations

import re
import string
from collections.abc import Callable

from binlog.cli.looking.event_fields import MISSING, text_of
from binlog.cli.looking.times import rfc3339
from binlog.cli.looking.views import RecordView
from binlog.cli.output import printable

_ESCAPES = {r"\t": "\t", r"\n": "\n", r"\\": "\\"}
_ESCAPE = re.compile(r"\\[tn\\]")
# A width larger than this is a mistake.
_WIDTH_MAX = 1000
_SPEC = re.compile(r"[<>^]?([0-9]{0,4})(\.[0-9]{1,6})?")


class Template:
    """A template, parsed once.

    text: literal text and names of fields in braces; `{level:<8}` pads to a width and `{body:.80}` cuts; `{{` and `}}`
    are braces, and \\t, \\n and \\\\ a tab, a newline and a backslash.
    Raises: ValueError.
    """

    def __init__(self, text: str, *, utc: bool) -> None:
        self._utc = utc
        self.names: list[str] = []
        self._parts: list[str | Callable[[RecordView], str]] = []
        for literal, name, spec, conversion in string.Formatter().parse(text):
            self._parts.append(_ESCAPE.sub(lambda match: _ESCAPES[match[0]], literal))
            if name is None:
                continue
            width = _SPEC.fullmatch(spec or "")
            if not name or conversion or width is None or int(width[1] or 0) > _WIDTH_MAX:
                raise ValueError(f"not the name of a field, such as {{time}} or {{level:<8}}, in {text!r}")
            self.names.append(name)
            self._parts.append(self._field(name, spec or ""))

    def line(self, view: RecordView) -> str:
        """Return the text of a record, without an end.  Control characters in values are escaped."""
        return "".join([part if isinstance(part, str) else part(view) for part in self._parts])

    def _field(self, name: str, spec: str) -> Callable[[RecordView], str]:
        def text(view: RecordView) -> str:
            return format(printable(field_text(view, name, utc=self._utc)), spec)

        return text


def field_text(view: RecordView, name: str, *, utc: bool) -> str:
    """Return a field as text; empty if the record does not have it, or if it is null."""
    value = view.field(name)
    if name in ("time", "appended"):
        return rfc3339(value, utc=utc)
    return "" if value is MISSING or value is None else text_of(value)
