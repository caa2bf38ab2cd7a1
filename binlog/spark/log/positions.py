"""Where a read begins and ends, as its options and a stream's checkpoint say it."""

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

_FORMS = """'earliest', 'latest', a ref as {"number":1,"offset":256} or 1:256, a time as 2026-11-30T12:00:00Z, \
or {"DIRECTORY":{"number":1,"offset":256}}"""


def parse_position(option: str, text: str) -> Position:
    """What an option says.  Raises: ValueError."""
    return parse_place(option, text, _FORMS, _refs)


def parse_place(option: str, text: str, forms: str, own: Callable[[str], T | None]) -> Start | Since | T:
    """The beginning, the end, or a time; or what `own` makes of a text, which gives None for what it does not know.

    forms: how all of these are written.  Raises: ValueError.
    """
    text = text.strip()
    named = {"earliest": Start.BEGINNING, "latest": Start.END}.get(text.lower())
    if named is not None:
        return named
    try:
        found = own(text)
        return Since(datetime.fromisoformat(text)) if found is None else found
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise ValueError(f"binlog: {option} is {forms}; not {text!r} ({error})") from error


def _refs(text: str) -> Ref | Mapping[str, Ref] | None:
    """A ref, or one for each directory."""
    if text.startswith("{"):
        value = json.loads(text)
        if "number" in value:
            return ref_from_json(value)
        return {str(directory): ref_from_json(ref) for directory, ref in value.items()}
    return Ref.parse(text) if text.replace(":", "").isdecimal() else None


def ref_from_json(value: Mapping[str, Any]) -> Ref:
    """A ref from its two keys.  Raises: ValueError, TypeError, KeyError."""
    ref = Ref(value["number"], value["offset"])
    ref.validate()
    return ref


def ref_to_json(ref: Ref) -> dict[str, int]:
    """The keys in the one order in which Spark compares them."""
    return {"number": ref.number, "offset": ref.offset}


def earliest(files: Sequence[FileStat]) -> Ref:
    """Where the first record lies, or will.  files: of a snapshot, one at least."""
    return Ref(files[0].number, files[0].first_offset)


def latest(files: Sequence[FileStat]) -> Ref:
    """Where the next record will lie."""
    # While a file is open, the one after it was only named by a cutover under way, or by one that died.
    newest = files[-2] if len(files) > 1 and not files[-2].closed else files[-1]
    return Ref(newest.number, newest.tail)


def resolve(position: Position, path: str, files: Sequence[FileStat], *, fail_on_data_loss: bool) -> Ref:
    """The ref that a position means in the log at `path`.

    Raises: ValueError where no record lies there; GoneError where retention removed it and the read is to fail then.
    """
    if isinstance(position, Mapping):
        if path not in position:
            raise ValueError(f"binlog: there is a position for {', '.join(position)}, and none for {path}")
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
        text = f"{path}: the records from {wanted} on were removed, up to {earliest(files)}"
        raise GoneError(f"{text}; failOnDataLoss=false goes on behind them")
    return earliest(files)
