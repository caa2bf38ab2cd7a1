"""Names are the field's words: no module, class or function has a name of this table."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import PurePath

from tests.support.checkout import ROOT

# Each pattern is of a whole name, without leading underscores; beside it what to use.
_BANNED = {
    r"settle\w*|settling": "recover, resolve_intent, await_outcome, validated_header, when_durable, ...",
    r"Turns?|append_turn|last_turn": "ProducerBatch, Producers, append_idempotent",
    r"mark_once|ONCE": "set_intent, Flag.INTENT",
    r"Draft|Drafted|append_drafts|used_up": "ExternalFileWriter, ExternalFile, ingest",
    r"Adoption|Joining|joining": "Ingestion, DrainWait",
    r"Succession|succession": "OpenFileFinder",
    r"\w*orphans?": "resolve_dead_leader",
    r"late|LateRecords": "AfterCloseRecords",
    r"good_end": "last_whole_record_end",
    r"vouched": "opened_before_unconfirmed",
    r"KnownHeader|known_header|bell_before": "HeaderCache, doorbell_at_previous_read",
    r"narrow|forward|Stretch": "narrow_range, limit_range, TimedBatch",
    r"inside": "threads_holding_file_lock",
    r"Undisturbed|uninterrupted|KeptOrUndone|StepThread": "Guard",
    r"Content": "ByteSource",
    r"SoleOwner|only_owner|OwnFolder|Ownership": "DirectoryLock",
    r"\w*attic\w*": "quarantine",
    r"\w*lookalikes?": "(the format has none)",
    r"look|Look|look_at|look_at_paging|PagingLook|AddressLook|PageLook|StoreLook": "FolderView, stat_paging, refresh",
    r"Kept|why_kept": "FilePins",
    r"is_for_ever|ignored_until_later|later": "is_fatal, suppress_transient",
    r"Keeper|keeper": "MaintenanceThread",
    r"JournalLife|life": "JournalLifecycle",
    r"negated?|outlasts": "tombstones_for, must_outlive",
    r"Survivors?|survivors|pieces_of|odd_records": "LiveRecords, output_records, missing_records",
    r"Found|found": "RawBatch, message_view",
    r"News|Settled|Lost|to_wait|went_on|own_queue": "ReaderState, VerifiedExtent, DamagedRanges, park",
    r"sift|Sifted|sifting|PageSettling|found_pages|Parked": "deliverable, CommitMarkers, page_recovery, Closable",
    r"aside|when_seen|other_machine": "task_output, shared_fs",
    r"\w*[sS]egment(?!s?_end)\w*": "StagingArea",
    r"Mortal|Crew|Strike|planted|drafting": "VictimProcess, WorkerPool, Injection, seeded_bugs",
    r"GivenError|warn_appends|uncounted": "CallerError, ...",
}
_BANNED_FILES = {
    r"pick|many|brief|pairs|wake|found": "message_select, record_framing, gil_held, pair_tuple(), wait_and_read, ...",
    r"once|chain|life|runs|pieces|kept": "producers, record_walk, lifecycle, compaction plan, ...",
}
# To parse all sources would take seconds.
_DEFINED = re.compile(r"^ *(?:class|def|async def) +(\w+)", re.MULTILINE)
_banned = {re.compile(pattern): instead for pattern, instead in _BANNED.items()}


def _names(path: str, source: str) -> Iterator[str]:
    """The names that a file gives: its own, and of Python those of its classes and functions."""
    yield PurePath(path).stem
    if path.endswith(".py"):
        yield from _DEFINED.findall(source)


def _wrong(sources: Mapping[str, str]) -> list[str]:
    files = [
        f"{path}: use {instead}"
        for path in sources
        if not path.startswith("stress/")
        for pattern, instead in _BANNED_FILES.items()
        if re.fullmatch(pattern, PurePath(path).stem)
    ]
    return files + [
        f"{path}: {name}: use {instead}"
        for path, source in sources.items()
        for name in _names(path, source)
        for pattern, instead in _banned.items()
        if pattern.fullmatch(name.lstrip("_"))
    ]


def _sources() -> dict[str, str]:
    listed = subprocess.run(
        ["git", "ls-files", "binlog", "pyspark_binlog", "native", "stress"],
        cwd=ROOT, capture_output=True, text=True, check=True,
    )  # fmt: skip
    return {name: (ROOT / name).read_text() for name in listed.stdout.split() if name.endswith((".py", ".c", ".h"))}


def test_no_name_is_one_that_only_this_project_would_use() -> None:
    assert _wrong(_sources()) == []


def test_such_a_name_is_found() -> None:
    assert len(_wrong({"binlog/log/orphans.py": "class Succession:\n    def _settle(self): ..."})) == 3
    assert _wrong({"native/many.c": ""}) != []
    assert _wrong({"binlog/log/writer.py": "class Writer:\n    def append(self): ..."}) == []
