"""Looking for everything that is wrong with a store, and repairing nothing.

May run while its owner writes: then what readers may see must be whole.  After a crash it is what the checkpoint says
was synced, for the rest is what recovery is for.
"""

from __future__ import annotations

import os
from contextlib import closing

from binlog.commitlog.check.files_check import check_files
from binlog.commitlog.check.key_entries_check import KeyIndexEntries
from binlog.commitlog.check.keys_check import KeysCheck
from binlog.commitlog.check.log_check import LogCheck, Lost, Settled
from binlog.commitlog.check.queues_check import QueuesCheck
from binlog.commitlog.check.state_check import check_state
from binlog.commitlog.files.files_reader import FilesReader
from binlog.commitlog.indexes.key_lookup import KeyIndexReader, slots_of
from binlog.commitlog.read.store_reader import check_is_store
from binlog.commitlog.recovery.store_state import StoreState, look
from binlog.commitlog.recovery.survey import find_features
from binlog.format.commitlog.compiled import Walk
from binlog.format.commitlog.names import COMMIT_LOG_FOLDER, INDEX_FOLDER, QUEUES_FOLDER
from binlog.format.problem import Problem
from binlog.storage.directory import Directory

_LOOKS_MAX = 5


def check_store(path: str | os.PathLike[str], *, key_slots: int | None = None) -> list[Problem]:
    """Every problem found in the store in a folder; an empty list for none.

    key_slots: of each file of the key index; as the owner tells unless given, or else as RocketMQ has it.
    A store with features that this engine does not know has a problem for each of them, and the rest is not checked.
    Reads every byte.  Takes no lock and writes nothing.
    Raises: AccessError where something cannot be read at all; NotFoundError where the folder is no store.
    """
    path = os.path.abspath(path)
    with closing(Directory(path)) as directory:
        check_is_store(path)
        unknown = [Problem(feature.path, 0, "feature", feature.text) for feature in find_features(path)]
        # What is right in a store depends on its features: the rest would be false alarms.
        return unknown or _look_until_sure(directory, key_slots)


def _look_until_sure(directory: Directory, key_slots: int | None) -> list[Problem]:
    """The problems of a look during which nobody opened the store, recovered it, and wrote to it, or stopped.

    Where that goes on and on, those that each look has told: what is in flight is elsewhere the next time.
    """
    lasting: set[tuple[str, int, str]] | None = None
    problems: list[Problem] = []
    for _ in range(_LOOKS_MAX):
        state = look(directory)
        problems = _check(directory, state, key_slots)
        if not problems or _same_owner(state, look(directory)):
            return problems
        places = set(map(_place, problems))
        lasting = places if lasting is None else lasting & places
    return [problem for problem in problems if _place(problem) in (lasting or ())]


def _place(problem: Problem) -> tuple[str, int, str]:
    return problem.path, problem.offset, problem.rule


def _same_owner(before: StoreState, after: StoreState) -> bool:
    """Whether nobody else had the store in between, as far as can be told."""
    if before.owned or after.owned:
        return (before.owned, before.owner) == (after.owned, after.owner)
    return before == after


def _check(directory: Directory, state: StoreState, key_slots: int | None) -> list[Problem]:
    path = directory.path
    problems: list[Problem] = []
    lost = Lost()
    settled = Settled.of(state)
    log_folder, index_folder = os.path.join(path, COMMIT_LOG_FOLDER), os.path.join(path, INDEX_FOLDER)
    log = FilesReader(log_folder)
    slots = slots_of(key_slots, state.news)
    index = KeyIndexReader(index_folder, slots) if os.path.isdir(index_folder) else None
    log_start = log.min_offset
    queues = QueuesCheck(os.path.join(path, QUEUES_FOLDER), log, settled, problems, lost)
    entries = KeyIndexEntries(index_folder, index, settled, log_start, problems)
    keys = KeysCheck(entries, log, settled, problems, lost)
    try:

        def take(found: Walk) -> None:
            for run in found.runs:
                queues.take(run)
            keys.take(found.keys)

        problems += check_files(log_folder, unit_bytes=1, growing=not settled.all)
        messages = LogCheck(log, settled, problems, lost, take)
        messages.run()
        queues.finish(messages.end)
        keys.finish(messages.end)
        problems += check_state(directory, state, log_start, messages)
    finally:
        queues.close()
        log.close()
        if index is not None:
            index.close()
    return problems
