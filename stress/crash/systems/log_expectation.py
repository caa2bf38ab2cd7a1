"""What must be in a log, and what may be, by the marks of those who append; and what was read compared with that."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from binlog import Ref
from stress.crash.marks import Values
from stress.crash.records import Identity
from stress.crash.systems.log_actor import How, Mark, MarkKind, mark_of


@dataclass(slots=True)
class _Record:
    """fate: what was told of it last.  first: the first record of its call."""

    fate: MarkKind
    first: int
    how: How


@dataclass(slots=True)
class Expectation:
    """By the marks until some tick.

    records: those that were tried.  runs: marks of records that lie one behind the other.
    number_least: of the open file.  keeps: whether what is kept must be there too.
    """

    records: dict[Identity, _Record] = field(default_factory=dict)
    runs: list[Mark] = field(default_factory=list)
    number_least: int = 0
    keeps: bool = False
    decided_count: int = 0
    _kept: dict[int, list[_Record]] = field(default_factory=dict)

    def add(self, values: Values) -> None:
        """Take one more mark into account."""
        mark = mark_of(values)
        identities = [(mark.writer, mark.first + at) for at in range(mark.record_count)]
        match mark.kind:
            case MarkKind.TRIED:
                for each in identities:
                    self.records.setdefault(each, _Record(MarkKind.TRIED, mark.first, mark.how))
            case MarkKind.CUT_OVER:
                self.number_least = max(self.number_least, mark.ref.number)
            case MarkKind.SYNCED:
                self._sync(mark.writer)
            case _:
                self.decided_count += mark.kind is MarkKind.DECIDED
                fate = MarkKind.DURABLE if mark.kind is MarkKind.SHOWN else mark.kind
                for each in identities:
                    self.records.setdefault(each, _Record(fate, mark.first, mark.how)).fate = fate
                if mark.ref.number:
                    self.runs.append(mark)
                if mark.kind is MarkKind.KEPT:
                    self._kept.setdefault(mark.writer, []).extend(self.records[each] for each in identities)
                elif mark.kind is MarkKind.DURABLE:
                    self._sync(mark.writer)

    def died(self) -> None:
        """What is in the file or in shared memory must be there too."""
        self.keeps = True

    @property
    def promised(self) -> int:
        """How many records must be there."""
        return sum(map(self.is_owed, self.records.values()))

    def is_owed(self, record: _Record) -> bool:
        """Whether it must be there."""
        return record.fate in (MarkKind.DURABLE, MarkKind.DECIDED) or (self.keeps and record.fate is MarkKind.KEPT)

    def _sync(self, writer: int) -> None:
        """All that was kept of a writer's records is durable: they lie before what was synced."""
        for record in self._kept.pop(writer, ()):
            record.fate = MarkKind.DURABLE


Entries = list[tuple[Ref, Identity]]


@dataclass(slots=True)
class Observation:
    """What came of a state.

    problems: what is wrong whatever had been acknowledged.
    before: what a reader saw before a writer opened the log; after: what it had in the end, but for what the harness
        itself had appended; all_: with that.  sizes: of the records.  number: the file that the harness's went to.
    """

    problems: list[str] = field(default_factory=list)
    before: Entries = field(default_factory=list)
    after: Entries = field(default_factory=list)
    all_: Entries = field(default_factory=list)
    sizes: Mapping[Identity, int] = field(default_factory=dict)
    number: int = 0


def compare(seen: Observation, least: Expectation, most: Expectation, *, in_order: bool) -> list[str]:
    """What is wrong with what was read.

    in_order: whether what was kept is lost only with all that its writer appended after it.  Not so after a failed
        sync, where what was staged may outlive what was in the file.
    """
    wrong: list[str] = []
    there: dict[Identity, Ref] = {}
    last: dict[int, int] = {}
    for ref, identity in seen.after:
        writer, index = identity
        if identity not in most.records:
            wrong.append(f"at {ref} is record {index} of writer {writer}, which was not tried yet")
        elif identity in there:
            wrong.append(f"record {index} of writer {writer} is there twice: {there[identity]}, {ref}")
        elif index < last.get(writer, -1):
            wrong.append(f"at {ref} record {index} of writer {writer} comes after its record {last[writer]}")
        there.setdefault(identity, ref)
        last[writer] = max(index, last.get(writer, -1))
    for identity, record in least.records.items():
        wrong += _of_record(identity, record, there, last if in_order else {}, least)
    before = {identity for _, identity in seen.before}
    wrong += [
        f"a reader before any writer did not see record {index} of writer {writer}, which was acknowledged"
        for (writer, index), record in least.records.items()
        if record.fate is MarkKind.DURABLE and (writer, index) in there and (writer, index) not in before
    ]
    wrong += _parts_before(seen, least)
    for mark in least.runs:
        wrong += _of_run(mark, there, seen.sizes, least)
    if not wrong and seen.number < least.number_least:
        wrong.append(f"the log goes on in file {seen.number}, and was cut over to {least.number_least}")
    return wrong


def _of_record(
    identity: Identity, record: _Record, there: Mapping[Identity, Ref], last: Mapping[int, int], least: Expectation
) -> Iterator[str]:
    writer, index = identity
    what = f"record {index} of writer {writer}"
    if identity not in there:
        if record.fate is MarkKind.DECIDED:
            yield f"{what} was to come into the log, and is not there"
        elif least.is_owed(record):
            yield f"{what}, acknowledged, is not there"
        elif record.fate is MarkKind.KEPT and last.get(writer, -1) > index:
            yield f"{what} is not there, and a later one is"
    elif record.fate is MarkKind.REFUSED:
        yield f"{what} was refused, and lies at {there[identity]}"
    if (identity in there) != ((writer, record.first) in there):
        yield f"{what} and record {record.first} are one call's, and only one of them is there"


def _of_run(
    mark: Mark, there: Mapping[Identity, Ref], sizes: Mapping[Identity, int], least: Expectation
) -> Iterator[str]:
    """The records of one call lie in one file, one behind the other."""
    ref = mark.ref
    for index in range(mark.first, mark.first + mark.record_count):
        identity = mark.writer, index
        lies = there.get(identity)
        if lies is None:
            return
        if lies != ref and least.is_owed(least.records[identity]):
            yield f"record {index} of writer {mark.writer} was acknowledged at {ref} and lies at {lies}"
        ref = Ref(ref.number, ref.offset + 4 + sizes[identity])


def _parts_before(seen: Observation, least: Expectation) -> Iterator[str]:
    """A reader sees whole calls before a writer opened the log; but of drafts perhaps the first file.

    That has one record; nothing is behind it then, for whoever appends has placed the others first (decision 32).
    """
    before = {identity for _, identity in seen.before}
    for (writer, index), record in least.records.items():
        if ((writer, index) in before) == ((writer, record.first) in before):
            continue
        first_alone = record.how is How.DRAFTS and seen.before[-1][1] == (writer, record.first)
        if not first_alone:
            yield f"before a writer record {index} of writer {writer} and {record.first} are not both there"
