"""Run all parts of an examination."""

from __future__ import annotations

import os
from collections.abc import Iterator

from binlog.doctor.findings import Examination, Finding, Verdict
from binlog.doctor.machine import examine_compiled_modules, examine_extras, examine_machine, examine_python
from binlog.errors import AccessError


def examine(path: str | os.PathLike[str]) -> Examination:
    """Examine this machine, and a directory in which a log is or will be.

    If the directory is writable, tries the operations of a log in a temporary folder in it, which is removed.
    Otherwise it only reads.  Changes nothing in a log, but may wake its waiting readers.
    Blocks: for 50 syncs and the start of a Python process, about half a second.
    Raises: NotFoundError if the directory does not exist.
    """
    return Examination(os.fspath(path), tuple(_findings(os.fspath(path))))


def _findings(path: str) -> Iterator[Finding]:
    yield from examine_machine()
    yield examine_python()
    compiled = examine_compiled_modules()
    yield compiled
    yield from examine_extras()
    if compiled.verdict is not Verdict.REFUSED:
        yield from _directory(path)


def _directory(path: str) -> Iterator[Finding]:
    # These need the compiled modules.
    from binlog.doctor.file_system import examine_file_system, try_file_system
    from binlog.doctor.log_state import examine_log
    from binlog.doctor.shared_memory import examine_shared_memory, examine_waking
    from binlog.storage.boot import boot_id
    from binlog.storage.directory import Directory

    try:
        boot_id()
        directory = Directory(path)
    except AccessError as error:
        yield Finding("directory", "access", Verdict.REFUSED, str(error), remedy=_run_as(error))
        return
    with directory:
        yield from examine_file_system(directory)
        yield from try_file_system(directory)
        yield from examine_shared_memory()
        yield examine_waking(directory)
        yield from examine_log(path)


def _run_as(error: AccessError) -> str:
    return f"run this as {error.run_as}" if error.run_as else "run this as the owner of the directory"
