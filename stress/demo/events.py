"""The events of the demo: where they come from, how they are written as records, and how records are told apart.

A work list is a text file with one event to be made per line, as JSON; it is written once, so that whoever takes a
share of it over sees the same.  Of `writers` writers, writer w makes the events of lines w, w + writers, ... and gives
them the numbers 0, 1, ... in that order: its own sequence, which says nothing of where a record lies in the log.
"""

from __future__ import annotations

import base64
import hashlib
import itertools
import json
import os
import sysconfig
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

# A few huge files would take the time of thousands of others.
_FILE_BYTES_MAX = 1 << 20

Item = dict[str, Any]


class Key(NamedTuple):
    """What tells a record from all others, and one of its bytes changed from itself."""

    writer: int
    sequence: int
    hash: str

    def __str__(self) -> str:
        return f"{self.writer} {self.sequence} {self.hash}"

    @classmethod
    def parse(cls, text: str) -> Key:
        """Read what `str()` wrote."""
        writer, sequence, digest = text.split()
        return cls(int(writer), int(sequence), digest)


def key_of(record: bytes) -> Key:
    """The key of an event's record.  Raises: ValueError where it is not one."""
    try:
        event = json.loads(record)
        return Key(event["writer"], event["writer_sequence"], hash_of(record))
    except (ValueError, KeyError, TypeError) as error:
        raise ValueError(f"not an event of the demo: {record[:80]!r}") from error


def hash_of(record: bytes) -> str:
    """The SHA-256 of a record, in hexadecimal."""
    return hashlib.sha256(record).hexdigest()


def make_record(item: Item, *, writer: int, sequence: int) -> bytes:
    """Make the event of one line of the work list, as it is appended."""
    event = {"writer": writer, "writer_sequence": sequence, **(item if "line" in item else _measured(item))}
    return json.dumps(event, separators=(",", ":")).encode()


def _measured(item: Item) -> Item:
    """What there is to say about a file now."""
    path: str = item["path"]
    printable = os.fsencode(path).decode(errors="backslashreplace")
    event = {**item, "path": printable}
    try:
        with open(path, "rb") as file:
            status = os.fstat(file.fileno())
            digest = hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        return {**event, "error": error.strerror}
    return {**event, "size": status.st_size, "mtime": status.st_mtime, "sha256": digest}


def python_files() -> list[Path]:
    """The files of the Python standard library and of the installed packages, but for very large ones."""
    roots = {os.path.realpath(sysconfig.get_path(name)) for name in ("stdlib", "purelib", "platlib")}
    files: set[Path] = set()
    for root in roots:
        for folder, folders, names in os.walk(root):
            folders[:] = [name for name in folders if name != "__pycache__"]
            files.update(Path(folder, name) for name in names)
    return sorted(path for path in files if _is_small_file(path))


def _is_small_file(path: Path) -> bool:
    try:
        return path.is_file() and not path.is_symlink() and path.stat().st_size <= _FILE_BYTES_MAX
    except OSError:
        return False


def file_items(files: Iterable[Path]) -> Iterator[Item]:
    """One item a file, and again from the first after the last, without end."""
    listed = list(files)
    if not listed:
        return
    for turn in itertools.count(1):
        for path in listed:
            yield {"path": str(path), "turn": turn}


def line_items(files: Iterable[Path]) -> Iterator[Item]:
    """One item for each line of a person's own files: its text, or base64 where it is not UTF-8."""
    for path in files:
        with path.open("rb") as file:
            for number, line in enumerate(file, start=1):
                yield {"path": str(path), "line": number, **_as_json(line.removesuffix(b"\n"))}


def _as_json(line: bytes) -> dict[str, str]:
    try:
        return {"text": line.decode()}
    except UnicodeDecodeError:
        return {"base64": base64.b64encode(line).decode()}


def write_work(path: Path, items: Iterable[Item], count_max: int | None) -> int:
    """Write the work list, and return how many events it has."""
    count = 0
    with path.open("w") as file:
        for item in itertools.islice(items, count_max):
            file.write(json.dumps(item) + "\n")
            count += 1
    return count


def read_work(path: Path, *, writer: int, writers: int, first: int = 0) -> Iterator[tuple[int, Item]]:
    """The share of one writer, from its sequence `first` on: each sequence with its item."""
    with path.open() as file:
        lines = itertools.islice(file, writer + first * writers, None, writers)
        for sequence, line in enumerate(lines, start=first):
            yield sequence, json.loads(line)


def share(count: int, *, writer: int, writers: int) -> int:
    """How many of `count` events one writer makes."""
    return len(range(writer, count, writers))
