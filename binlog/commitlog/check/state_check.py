"""The check of a store's state files: the checkpoint, the sidecar and the abort marker."""

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
    """Yield the problems of the state files.  log: after its check of the commit log, which starts at `log_start`."""
    yield from _check_abort(directory)
    if not state.clean:
        return  # the owner is writing the other files, or a crash interrupted it
    yield from _check_checkpoint(directory, state, log)
    yield from _check_sidecar(directory, state, log_start, log)


def _check_abort(directory: Directory) -> Iterator[Problem]:
    data = _read(directory, ABORT_FILE, _ABORT_BYTES_MAX)
    # The id of a process.  The file is empty for a moment, and always in older versions of RocketMQ.
    if data and not data.isdigit():
        where = directory.file_path(ABORT_FILE)
        yield Problem(where, 0, "abort", "the abort marker does not contain a process id")


def _check_checkpoint(directory: Directory, state: StoreState, log: LogCheck) -> Iterator[Problem]:
    where = directory.file_path(CHECKPOINT_FILE)
    data = _read(directory, CHECKPOINT_FILE, CHECKPOINT_FILE_BYTES + 1)
    if data is None or state.checkpoint is None:
        if log.last_ms:
            yield Problem(where, 0, "checkpoint", "the file is missing, although the store was stopped cleanly")
        return
    if len(data) != CHECKPOINT_FILE_BYTES:
        yield Problem(where, 0, "checkpoint", f"the file does not have {CHECKPOINT_FILE_BYTES} bytes")
    for name in ("log_ms", "queues_ms", "index_ms"):
        value = getattr(state.checkpoint, name)
        # If no message is left, the time of the last one is unknown.
        if value < 0 or (log.last_ms and value > log.last_ms):
            text = f"{name} is {value}, but the last message was stored at {log.last_ms}"
            yield Problem(where, STORE_CHECKPOINT.offset(name), "checkpoint", text)
    for name in ("master_flushed_offset", "confirmed_offset", "queues_offset"):
        if getattr(state.checkpoint, name) < 0:
            yield Problem(where, STORE_CHECKPOINT.offset(name), "checkpoint", f"{name} is negative")
    rest = data[STORE_CHECKPOINT.size :]
    if any(rest):
        at = len(data) - len(rest.lstrip(b"\0"))
        yield Problem(where, at, "checkpoint", "the bytes after the fields are not zero")


def _check_sidecar(directory: Directory, state: StoreState, log_start: int, log: LogCheck) -> Iterator[Problem]:
    where = directory.file_path(SIDECAR_FILE)
    data = _read(directory, SIDECAR_FILE, SIDECAR_BYTES + 1)
    if data is None:
        return  # RocketMQ writes none
    if len(data) != SIDECAR_BYTES or state.reader_state is None:
        yield Problem(where, 0, "sidecar", "the contents are invalid, so readers ignore the file")
        return
    for name, wanted in (("log_start", log_start), ("readable_end", log.end)):
        value = getattr(state.reader_state, name)
        if value != wanted:
            text = f"{name} is {value}, but the log has {wanted}; readers see no more until the store is reopened"
            yield Problem(where, STORE_SIDECAR.offset(name), "sidecar", text)
    if any(data[STORE_SIDECAR.size :]):
        at = len(data) - len(data[STORE_SIDECAR.size :].lstrip(b"\0"))
        yield Problem(where, at, "sidecar", "the bytes after the fields are not zero")


def _read(directory: Directory, name: str, size: int) -> bytes | None:
    try:
        return directory.read(name, size)
    except NotFoundError:
        return None
