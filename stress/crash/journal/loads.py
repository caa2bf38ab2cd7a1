"""What a load told, with each body known for the call that appended it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from binlog.format.journal.file_header import JournalLayout
from binlog.format.journal.record import Kind
from binlog.journal.journal import Journal
from binlog.journal.options import JournalOptions
from binlog.journal.record import Loaded, Record, TransactionContent
from stress.crash.journal.marks import Identity, Mark, MarkKind, Operation, plain_mark
from stress.crash.ledger import is_whole

WRITERS = 100
JUDGES = (99, 98)
"""Those of them who append to what is judged."""


@dataclass(frozen=True, slots=True)
class Content:
    """A transaction: the calls whose bodies it has, adds and updates before deletes, and that which prepared it.

    record_ids: of the records that it adds, updates or deletes.
    """

    parts: tuple[Identity, ...]
    extra: Identity | None
    record_ids: frozenset[int]


@dataclass(slots=True)
class Told:
    """What a load told.

    records: whose bodies are there, in order, with the record of each, and whether it is an update.
    problems: the rules.  keeps_ids: whether the layout has a place for the largest id.
    wrong: bodies that nobody appended, and the like.
    """

    records: dict[Identity, tuple[int, bool]] = field(default_factory=dict)
    prepared: dict[int, Content] = field(default_factory=dict)
    failed: dict[int, Content] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)
    id_max: int = 0
    keeps_ids: bool = False
    wrong: list[str] = field(default_factory=list)

    def marks(self) -> Iterator[Mark]:
        """What it says, for an expectation."""
        for identity in self.records:
            yield Mark(MarkKind.TOLD, Operation(*identity, Kind.ADD))
        for tx_id in self.prepared:
            yield plain_mark(MarkKind.PREPARED, tx_id=tx_id)
        for tx_id in self.failed:
            yield plain_mark(MarkKind.FAILED, tx_id=tx_id)
        yield plain_mark(MarkKind.LOADED, record_id=len(self.problems))


def told_of(loaded: Loaded) -> Told:
    """What a load told."""
    told = Told(problems=[problem.rule for problem in loaded.problems], id_max=loaded.id_max)
    for record in loaded.records:
        identity = _identity(record, told.wrong)
        if identity is None:
            continue
        if identity in told.records:
            told.wrong.append(f"the body of {identity} is there twice")
        told.records[identity] = record.record_id, record.is_update
    for each, into in ((loaded.prepared, told.prepared), (loaded.failed, told.failed)):
        for content in each:
            if content.tx_id in into:
                told.wrong.append(f"the transaction {content.tx_id} is told twice")
            into[content.tx_id] = _content(content, told.wrong)
    return told


def _content(content: TransactionContent, wrong: list[str]) -> Content:
    parts = [_identity(item, wrong) for item in (*content.records, *content.deletes)]
    return Content(
        tuple(part for part in parts if part is not None),
        identity_of(content.extra),
        frozenset(record.record_id for record in content.records) | {each.record_id for each in content.deletes},
    )


def _identity(item: object, wrong: list[str]) -> Identity | None:
    body: bytes = item.body  # type: ignore[attr-defined]
    identity = identity_of(body)
    if identity is None:
        wrong.append(f"a body is there that nobody appended: {body[:40]!r}")
    elif isinstance(item, Record) and item.user_type != user_type_of(identity):
        wrong.append(f"the user's type of {identity} is {item.user_type}")
    return identity


def identity_of(body: bytes) -> Identity | None:
    """Whose body it is, or None where it is nobody's, or not as it was appended."""
    try:
        writer, number = map(int, body[:24].split(b":", 2)[:2])
    except ValueError:
        return None
    return (writer, number) if writer < WRITERS and is_whole(body, writer, number) else None


def user_type_of(identity: Identity) -> int:
    """The user's type of a call's record."""
    return identity[1] % 251


def open_journal(path: Path, options: JournalOptions) -> tuple[Journal, Told]:
    """Start and load a journal, which is closed where that fails."""
    journal = Journal(path, options)
    try:
        journal.start()
        told = told_of(journal.load())
        told.keeps_ids = journal._files.layout is JournalLayout.NATIVE
        return journal, told
    except BaseException:
        journal.close()
        raise
