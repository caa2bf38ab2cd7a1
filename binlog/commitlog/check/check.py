"""The check of a store: reports every problem and repairs nothing.

A check may run while the owner writes: then everything that readers may see must be valid.  After a crash, everything
that the checkpoint covers must be valid; the rest is the task of recovery.
"""

from __future__ import annotations

import os
from contextlib import closing

from binlog.commitlog.check.files_check import check_files
from binlog.commitlog.check.key_entries_check import KeyIndexEntries
from binlog.commitlog.check.keys_check import KeysCheck
from binlog.commitlog.check.log_check import DamagedRanges, LogCheck, VerifiedExtent
from binlog.commitlog.check.queues_check import QueuesCheck
from binlog.commitlog.check.state_check import check_state
from binlog.commitlog.files.files_reader import FilesReader
from binlog.commitlog.indexes.key_lookup import KeyIndexReader, key_slots_of
from binlog.commitlog.read.store_reader import check_is_store
from binlog.commitlog.recovery.store_state import StoreState, read_state
from binlog.commitlog.recovery.survey import find_features
from binlog.format.commitlog.compiled import Walk
from binlog.format.commitlog.names import COMMIT_LOG_FOLDER, INDEX_FOLDER, QUEUES_FOLDER
from binlog.format.problem import Problem
from binlog.storage.directory import Directory

_ATTEMPTS_MAX = 5


def check_store(path: str | os.PathLike[str], *, key_slots: int | None = None) -> list[Problem]:
    """Return every problem of the store in a folder; an empty list if there is none.

    key_slots: the slots of each key index file; by default as published by the owner, or else RocketMQ's default.
    If the store has features that this engine does not know, each is a problem, and nothing else is checked.
    Reads every byte.  Takes no lock and writes nothing.
    Raises: AccessError if something cannot be read at all; NotFoundError if the folder is not a store.
    """
    path = os.path.abspath(path)
    with closing(Directory(path)) as directory:
        check_is_store(path)
        unknown = [Problem(feature.path, 0, "feature", feature.text) for feature in find_features(path)]
        # Whether a store is valid depends on its features: without them there would be false alarms.
        return unknown or _check_until_stable(directory, key_slots)


def _check_until_stable(directory: Directory, key_slots: int | None) -> list[Problem]:
    """Return the problems of an attempt during which the store was neither opened, recovered nor stopped.

    If every attempt is disturbed, return the problems that all of them found: writes in flight change their places.
    """
    in_all_attempts: set[tuple[str, int, str]] | None = None
    problems: list[Problem] = []
    for _ in range(_ATTEMPTS_MAX):
        state = read_state(directory)
        problems = _check(directory, state, key_slots)
        if not problems or _same_owner(state, read_state(directory)):
            return problems
        places = set(map(_place, problems))
        in_all_attempts = places if in_all_attempts is None else in_all_attempts & places
    return [problem for problem in problems if _place(problem) in (in_all_attempts or ())]


def _place(problem: Problem) -> tuple[str, int, str]:
    return problem.path, problem.offset, problem.rule


def _same_owner(before: StoreState, after: StoreState) -> bool:
    """Return whether no other process had the store in between, as far as that can be known."""
    if before.owned or after.owned:
        return (before.owned, before.owner) == (after.owned, after.owner)
    return before == after


def _check(directory: Directory, state: StoreState, key_slots: int | None) -> list[Problem]:
    path = directory.path
    problems: list[Problem] = []
    damaged = DamagedRanges()
    verified = VerifiedExtent.of(state)
    log_folder, index_folder = os.path.join(path, COMMIT_LOG_FOLDER), os.path.join(path, INDEX_FOLDER)
    log = FilesReader(log_folder)
    slots = key_slots_of(key_slots, state.reader_state)
    index = KeyIndexReader(index_folder, slots) if os.path.isdir(index_folder) else None
    log_start = log.min_offset
    queues = QueuesCheck(os.path.join(path, QUEUES_FOLDER), log, verified, problems, damaged)
    entries = KeyIndexEntries(index_folder, index, verified, log_start, problems)
    keys = KeysCheck(entries, log, verified, problems, damaged)
    try:

        def take(found: Walk) -> None:
            for run in found.runs:
                queues.take(run)
            keys.take(found.keys)

        problems += check_files(log_folder, unit_bytes=1, growing=not verified.all)
        messages = LogCheck(log, verified, problems, damaged, take)
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
