"""The dead letters of a group: reading them, and removing old ones."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from binlog.consumers.inspection.replay import folder_of
from binlog.errors import NotFoundError
from binlog.format.consumers.message import Message
from binlog.format.record import Ref
from binlog.log.maintain.prune import Pruned, prune
from binlog.log.maintain.stat import stat
from binlog.log.reader import Reader
from binlog.log.writer import Writer

_OWN = "binlog-"


@dataclass(frozen=True, slots=True, kw_only=True)
class DeadLetter:
    """A message that a group gave up.

    ref: of the dead letter, in the log of dead letters.  sequence, origin: of the message in its log; None if unknown.
    reason: why the group gave it up.  deliveries: how often it was delivered.  deaths: how many members died that had
    started it.  time_ns: when it became a dead letter, nanoseconds since 1970 by the wall clock.
    body, key, headers: of the message.
    """

    ref: Ref
    sequence: int | None
    origin: str | None
    reason: str
    deliveries: int
    deaths: int
    time_ns: int
    body: bytes
    key: bytes | None
    headers: Mapping[str, bytes]


def read_dead_letters(path: str | os.PathLike[str], name: str) -> Iterator[DeadLetter]:
    """Iterate over the dead letters of a group of a log, oldest first.

    Raises, when it is called: NotFoundError if there is no such group; AccessError, CorruptError, VersionError.
    """
    folder = dead_letter_folder(path, name)
    return iter(()) if folder is None else _letters(Reader(folder))


def drop_dead_letters(
    path: str | os.PathLike[str],
    name: str,
    *,
    keep_seconds: float | None = None,
    before: Ref | None = None,
) -> list[Pruned]:
    """Remove old dead letters, a file of them at a time; return a report for each file.

    keep_seconds: keep files with a dead letter that is younger than this.  before: keep the file of this ref, and all
    later ones.
    The open file is closed first, so that it can be removed; without a limit, all dead letters are.
    Durable on return.  Raises: NotFoundError; BusyError; AccessError, CorruptError; ValueError for a ref that does not
    exist.
    """
    folder = dead_letter_folder(path, name)
    if folder is None:
        return []
    if (stat(folder).files[-1].record_count or 0) > 0:
        with Writer(folder) as writer:
            writer.cutover()
    if before is None and keep_seconds is None:
        return prune(folder, keep_bytes=0)
    return prune(folder, keep_seconds=keep_seconds, before=before)


def dead_letter_folder(path: str | os.PathLike[str], name: str) -> str | None:
    """Return the directory of a group's dead letters, None if it never had one.  Raises: NotFoundError."""
    folder = os.path.join(folder_of(path, name), "dead")
    try:
        return folder if stat(folder).files else None
    except NotFoundError:
        return None


def _letters(reader: Reader) -> Iterator[DeadLetter]:
    with reader:
        for ref, record in reader:
            message = Message.parse(record)
            own = {key: value.decode(errors="backslashreplace") for key, value in message.headers.items()}
            sequence = own.get("binlog-sequence", "")
            yield DeadLetter(
                ref=ref,
                sequence=int(sequence) if sequence.isdigit() else None,
                origin=own.get("binlog-ref") or None,
                reason=own.get("binlog-reason", ""),
                deliveries=_number(own.get("binlog-deliveries")),
                deaths=_number(own.get("binlog-deaths")),
                time_ns=message.produced_ns,
                body=bytes(message.body),
                key=message.key,
                headers={key: value for key, value in message.headers.items() if not key.startswith(_OWN)},
            )


def _number(text: str | None) -> int:
    return int(text) if text is not None and text.isdigit() else 0
