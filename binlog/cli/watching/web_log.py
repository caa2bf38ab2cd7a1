"""WebLog: a log as `binlog web` shows it, made of the parts of `binlog monitor` and `binlog tail`."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence

import binlog
from binlog.cli.looking.event_fields import Event, parse_severity, severity_of, text_of
from binlog.cli.looking.filters import Filters, Matches
from binlog.cli.looking.sources import LogSource
from binlog.cli.looking.times import rfc3339
from binlog.cli.looking.views import RecordView, views_of
from binlog.cli.watching.live_log import LiveLog
from binlog.cli.watching.texts import follower_object, seal_object
from binlog.errors import NotFoundError
from binlog.watching import GroupView, LogView, Trend
from binlog.watching.trends import Key
from binlog.web import FoundRows, JsonObject, Row

# The most to read for the last records that match.
_SEARCH_BYTES_MAX = 64 << 20
_ROW_TEXT_MAX = 2000
_RECORD_TEXT_MAX = 1 << 20
# The most of each kind that the page shows.
_FILES_MAX = 20
_FOLLOWERS_MAX = 200
_GROUPS_MAX = 100
_MEMBERS_MAX = 100
_HINT_MAX = 200


class WebLog:
    """A log, with the state that `binlog monitor` shows, and the records that `binlog tail` finds.

    directory: of the log.  name: on the page.  positions: more position files, outside of the directory.
    Raises: as LiveLog.
    """

    def __init__(self, directory: str, name: str, positions: Iterable[str]) -> None:
        self.directory = directory
        self.name = name
        self._live = LiveLog(directory, positions, last_count=0)

    def read_state(self) -> JsonObject:
        """Return the state of the log."""
        self._live.update()
        snapshot = self._live.snapshot()
        view, log = snapshot.view, snapshot.view.log
        return {
            "path": log.path,
            "tail": None if log.tail is None else str(log.tail),
            "record_count": log.record_count,
            "disk_bytes": log.disk_bytes,
            "rate": {"records": round(snapshot.rate.records, 1), "bytes": round(snapshot.rate.bytes)},
            "history": snapshot.history,
            "is_poisoned": log.is_poisoned,
            "file_count": len(log.files),
            "files": [_file_object(file) for file in log.files[: -_FILES_MAX - 1 : -1]],
            "follower_count": len(view.followers),
            "followers": [
                {**follower_object(each), "trend": _trend(snapshot.trends, ("follower", each.path))}
                for each in view.followers[:_FOLLOWERS_MAX]
            ],
            "group_count": len(view.groups),
            "groups": [
                {**_group_object(group), "trend": _trend(snapshot.trends, ("group", group.name))}
                for group in view.groups[:_GROUPS_MAX]
            ],
            "seal": _seal(view),
            "problem": snapshot.problem,
        }

    def query(self, values: Mapping[str, Sequence[str]]) -> WebQuery:
        """Return a filter: `level`, `logger` globs, `field` as NAME=VALUE, `text` in any case.  Raises: ValueError."""
        level = next(iter(values.get("level", ())), "")
        given = {name: [value for value in values.get(name, ()) if value] for name in ("logger", "field", "text")}
        for each in given["field"]:
            if each.find("=") < 1:
                raise ValueError(f"not NAME=VALUE: {each!r}")
        filters = Filters(
            severity_min=parse_severity(level) if level else None,
            loggers=given["logger"],
            fields=[(name, text) for name, _, text in (each.partition("=") for each in given["field"])],
            patterns=[re.compile(re.escape(each.encode()), re.IGNORECASE) for each in given["text"]],
        )
        return WebQuery(LogSource(self.directory, self.name, filters=filters, bytes_max=_SEARCH_BYTES_MAX))

    def record(self, ref: binlog.Ref) -> JsonObject:
        """Return all of a record, up to 1 MiB of it."""
        with binlog.Reader(self.directory, ref, verify=False) as reader:
            batch = reader.read_batch(records_max=1)
        if not batch:
            raise NotFoundError(f"no record at {ref} yet")
        [view] = views_of(self.name, binlog.RecordTimes(self.directory), Matches.whole(batch), parse=True)
        if view.event is not None:
            whole = json.dumps(view.event, indent=2, ensure_ascii=False)
        else:
            whole = view.start_of_text(_RECORD_TEXT_MAX + 1)
        return {
            **_head(view),
            "ref": str(ref),
            "appended": rfc3339(view.appended_ns, utc=True),
            "bytes": len(view.data),
            "is_event": view.event is not None,
            "text": whole[:_RECORD_TEXT_MAX],
            "is_cut": len(whole) > _RECORD_TEXT_MAX,
        }

    def close(self) -> None:
        """Close all files."""
        self._live.close()


class WebQuery:
    """The records of a log that match a filter."""

    def __init__(self, source: LogSource) -> None:
        self._source = source

    def of_batch(self, batch: binlog.Batch, count_max: int) -> FoundRows:
        """Return the last records of a batch that match."""
        matches = self._source.filters.matches(batch)
        shown = matches.last(count_max)
        return FoundRows(self._rows([shown]), left_out=len(matches) - len(shown))

    def last(self, count_max: int) -> FoundRows:
        """Return the last records of the log that match, of the last 64 MiB."""
        log = binlog.stat(self._source.directory)
        found = self._source.backwards(log).last(count_max)
        is_cut = sum(map(len, found)) < count_max and log.used_bytes > _SEARCH_BYTES_MAX
        return FoundRows(self._rows(found), is_cut=is_cut, tail=log.tail)

    def _rows(self, found: Iterable[Matches]) -> list[Row]:
        return [Row(view.ref, _row_bytes(view)) for view in self._source.views(found, parse=True)]


def _row_bytes(view: RecordView) -> bytes:
    text = _text_of_event(view.event) if view.event is not None else None
    shown = view.start_of_text(_ROW_TEXT_MAX) if text is None else text[:_ROW_TEXT_MAX]
    row = {"ref": str(view.ref), **_head(view), "text": shown}
    return json.dumps(row, separators=(",", ":")).encode("ascii")


def _head(view: RecordView) -> JsonObject:
    """Return the parts that are shown of each record besides its text."""
    event = view.event or {}
    level, logger = (event.get(key) for key in ("level", "logger"))
    return {
        "sequence": view.sequence,
        "time": rfc3339(view.time_ns, utc=True),
        "severity": severity_of(event),
        "level": None if level is None else text_of(level)[:_HINT_MAX],
        "logger": None if logger is None else text_of(logger)[:_HINT_MAX],
    }


def _text_of_event(event: Event) -> str | None:
    """Return the body of an event and its attributes, as `binlog tail -o short` does; None for another object."""
    body = event.get("body")
    if body is None and event.get("level") is None and event.get("logger") is None:
        return None
    said = text_of(event.get("event", "-") if body is None else body)
    attributes = event.get("attributes")
    if not isinstance(attributes, dict):
        return said
    pairs = [f"{name}={text_of(value)}" for name, value in attributes.items() if name != "exception.stacktrace"]
    return " ".join([said, *pairs])


def _file_object(file: binlog.FileStat) -> JsonObject:
    return {
        "number": file.number,
        "kind": "archived" if file.archived else "closed" if file.closed else "open",
        "record_count": file.record_count,
        "disk_bytes": file.disk_bytes,
        "created": None if file.created_ns is None else _time_text(file.created_ns),
    }


def _group_object(group: GroupView) -> JsonObject:
    stat = group.stat
    if stat is None:
        return {"name": group.name, "problem": group.problem}
    return {
        "name": group.name,
        "problem": None,
        "lag": stat.lag,
        "lag_seconds": None if stat.lag_seconds is None else round(stat.lag_seconds),
        "next": stat.next,
        "ready": stat.ready,
        "delayed": stat.delayed,
        "blocked": stat.blocked,
        "in_hand": stat.in_hand,
        "dead_letters": stat.dead_letters,
        "held_bytes": stat.held_bytes,
        "is_paused": stat.is_paused,
        "order": stat.settings.order.value,
        "member_count": len(stat.members),
        "members": [
            {
                "seat": member.seat,
                "hint": member.hint[:_HINT_MAX],
                "is_alive": member.is_alive,
                "in_hand": len(member.in_hand),
            }
            for member in stat.members[:_MEMBERS_MAX]
        ],
    }


def _seal(view: LogView) -> JsonObject | None:
    if view.seal is None:
        return None
    signed_ns = None if view.seal.stat is None else view.seal.stat.signed_ns
    ago = None if signed_ns is None else max(round((view.time_ns - signed_ns) / 1e9), 0)
    return {**seal_object(view.seal), "signed_seconds_ago": ago}


def _time_text(time_ns: int) -> str | None:
    try:
        return rfc3339(time_ns, utc=True)
    except (ValueError, OverflowError):
        return None  # a damaged header can hold any number


def _trend(trends: Mapping[Key, Trend], key: Key) -> float | None:
    """Return by how much a lag grows a second, negative if it shrinks, 0 if it is steady, None if not known."""
    trend = trends.get(key)
    if trend is None:
        return None
    return 0 if trend.direction == "steady" else round(trend.per_second, 1)
