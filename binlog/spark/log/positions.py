"""The start and end of a read, in options and in a stream's checkpoint."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Any, TypeVar

from binlog import FileStat, Reader, Ref, Since, Start
from binlog.errors import GoneError

T = TypeVar("T")

Position = Start | Since | Ref | Mapping[str, Ref]
"""The beginning, the end, a time, a ref, or a ref for each directory."""

_FORMS = """'earliest', 'latest', a ref such as {"number":1,"offset":256} or 1:256, a time such as \
2026-11-30T12:00:00Z, or {"DIRECTORY":{"number":1,"offset":256}}"""


def parse_position(option: str, text: str) -> Position:
    """Parse a position.  Raises: ValueError."""
    return parse_common(option, text, _FORMS, _refs)


def parse_common(option: str, text: str, forms: str, parse_other: Callable[[str], T | None]) -> Start | Since | T:
    """Parse the beginning, the end or a time; or use `parse_other`, which returns None for unknown texts.

    forms: a list of all forms, for the error.  Raises: ValueError.
    """
    text = text.strip()
    named = {"earliest": Start.BEGINNING, "latest": Start.END}.get(text.lower())
    if named is not None:
        return named
    try:
        found = parse_other(text)
        return Since(datetime.fromisoformat(text)) if found is None else found
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise ValueError(f"binlog: {option} must be {forms}; not {text!r} ({error})") from error


def _refs(text: str) -> Ref | Mapping[str, Ref] | None:
    """Parse a ref, or one for each directory."""
    if text.startswith("{"):
        value = json.loads(text)
        if "number" in value:
            return ref_from_json(value)
        return {str(directory): ref_from_json(ref) for directory, ref in value.items()}
    return Ref.parse(text) if text.replace(":", "").isdecimal() else None


def ref_from_json(value: Mapping[str, Any]) -> Ref:
    """Return the ref in a JSON object.  Raises: ValueError, TypeError, KeyError."""
    ref = Ref(value["number"], value["offset"])
    ref.validate()
    return ref


def ref_to_json(ref: Ref) -> dict[str, int]:
    """Return a ref as a JSON object.  The order of the keys matters, because Spark compares offsets as text."""
    return {"number": ref.number, "offset": ref.offset}


def earliest(files: Sequence[FileStat]) -> Ref:
    """Return the position of the first record, even if there is none yet.  files: of a snapshot, at least one."""
    return Ref(files[0].number, files[0].first_offset)


def latest(files: Sequence[FileStat]) -> Ref:
    """Return the position of the next record."""
    # If a file is open, the one after it can only be the empty successor of an unfinished cutover.
    newest = files[-2] if len(files) > 1 and not files[-2].closed else files[-1]
    return Ref(newest.number, newest.tail)


def resolve(position: Position, path: str, files: Sequence[FileStat], *, fail_on_data_loss: bool) -> Ref:
    """Return the ref of a position in the log at `path`: the start of a record, or the end of the log.

    Raises: ValueError if no record starts there; GoneError if retention removed it and fail_on_data_loss is set.
    """
    if isinstance(position, Mapping):
        if path not in position:
            raise ValueError(f"binlog: there are positions for {', '.join(position)}, but none for {path}")
        position = position[path]
    if isinstance(position, Ref):
        if position < earliest(files):
            return _beginning(position, path, files, fail_on_data_loss=fail_on_data_loss)
    elif isinstance(position, Start):
        return earliest(files) if position is Start.BEGINNING else latest(files)
    try:
        with Reader(path, position) as reader:
            return reader.next_ref
    except ValueError as error:
        raise ValueError(f"binlog: {path}: {error}") from error
    except GoneError:
        if fail_on_data_loss:
            raise
        return earliest(files)


def _beginning(wanted: Ref, path: str, files: Sequence[FileStat], *, fail_on_data_loss: bool) -> Ref:
    if fail_on_data_loss:
        text = f"{path}: the records from {wanted} up to {earliest(files)} were removed"
        raise GoneError(f"{text}; use failOnDataLoss=false to continue after them")
    return earliest(files)
