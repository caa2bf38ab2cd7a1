"""Looking at what a store says of itself beside its messages: its checkpoint, its sidecar, its abort marker."""

from __future__ import annotations

from collections.abc import Iterator

from binlog.commitlog.check.log_check import LogCheck
from binlog.commitlog.recovery.store_state import StoreState
from binlog.errors import NotFoundError
from binlog.format.commitlog.names import ABORT_FILE, CHECKPOINT_FILE
from binlog.format.commitlog.store_files import (
    CHECKPOINT_FILE_BYTES,
    SIDECAR_BYTES,
    SIDECAR_FILE,
    STORE_CHECKPOINT,
    STORE_SIDECAR,
)
from binlog.format.problem import Problem
from binlog.storage.directory import Directory

_ABORT_BYTES_MAX = 64


def check_state(directory: Directory, state: StoreState, log_start: int, log: LogCheck) -> Iterator[Problem]:
    """What is wrong with it.  log: which has gone through the commit log, that starts at `log_start`."""
    yield from _check_abort(directory)
    if not state.clean:
        return  # the rest is being written, or was when somebody died
    yield from _check_checkpoint(directory, state, log)
    yield from _check_sidecar(directory, state, log_start, log)


def _check_abort(directory: Directory) -> Iterator[Problem]:
    data = _read(directory, ABORT_FILE, _ABORT_BYTES_MAX)
    # The id of the process; nothing, for a moment, and in older versions of RocketMQ.
    if data and not data.isdigit():
        where = directory.file_path(ABORT_FILE)
        yield Problem(where, 0, "abort", "the abort marker has something else in it than the id of a process")


def _check_checkpoint(directory: Directory, state: StoreState, log: LogCheck) -> Iterator[Problem]:
    where = directory.file_path(CHECKPOINT_FILE)
    data = _read(directory, CHECKPOINT_FILE, CHECKPOINT_FILE_BYTES + 1)
    if data is None or state.checkpoint is None:
        if log.last_ms:
            yield Problem(where, 0, "checkpoint", "there is none, though the store was stopped as it should be")
        return
    if len(data) != CHECKPOINT_FILE_BYTES:
        yield Problem(where, 0, "checkpoint", f"the file has other than {CHECKPOINT_FILE_BYTES} bytes")
    for name in ("log_ms", "queues_ms", "index_ms"):
        said = getattr(state.checkpoint, name)
        # Where no message is left the last one's time is not known.
        if said < 0 or (log.last_ms and said > log.last_ms):
            text = f"{name} is {said}, and the last message was stored at {log.last_ms}"
            yield Problem(where, STORE_CHECKPOINT.offset(name), "checkpoint", text)
    for name in ("master_flushed_offset", "confirmed_offset", "queues_offset"):
        if getattr(state.checkpoint, name) < 0:
            yield Problem(where, STORE_CHECKPOINT.offset(name), "checkpoint", f"{name} is below 0")
    rest = data[STORE_CHECKPOINT.size :]
    if any(rest):
        at = len(data) - len(rest.lstrip(b"\0"))
        yield Problem(where, at, "checkpoint", "something else than zeros lies behind the times")


def _check_sidecar(directory: Directory, state: StoreState, log_start: int, log: LogCheck) -> Iterator[Problem]:
    where = directory.file_path(SIDECAR_FILE)
    data = _read(directory, SIDECAR_FILE, SIDECAR_BYTES + 1)
    if data is None:
        return  # as in a store that RocketMQ has written
    if len(data) != SIDECAR_BYTES or state.news is None:
        yield Problem(where, 0, "sidecar", "it is not as the store's owner writes it, so readers do without")
        return
    for name, wanted in (("log_start", log_start), ("readable_end", log.end)):
        said = getattr(state.news, name)
        if said != wanted:
            text = f"{name} is {said}, and in the log {wanted}; until the store is opened readers see no more"
            yield Problem(where, STORE_SIDECAR.offset(name), "sidecar", text)
    if any(data[STORE_SIDECAR.size :]):
        at = len(data) - len(data[STORE_SIDECAR.size :].lstrip(b"\0"))
        yield Problem(where, at, "sidecar", "something else than zeros lies behind its fields")


def _read(directory: Directory, name: str, size: int) -> bytes | None:
    try:
        return directory.read(name, size)
    except NotFoundError:
        return None
