"""The records that a log must have, and may have, by the marks; and their comparison with the records read."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from binlog import Ref
from stress.crash.marks import Values
from stress.crash.records import Identity
from stress.crash.systems.log.actor import How, Mark, MarkKind, mark_of


@dataclass(slots=True)
class _Record:
    """One record.  fate: its last mark.  first: the first record of its call."""

    fate: MarkKind
    first: int
    how: How


@dataclass(slots=True)
class Expectation:
    """The state of a log according to the marks until some tick.

    records: those that were tried.  runs: marks of records that follow each other in one file.
    number_least: of the open file.  keeps: whether KEPT records are promised too.
    """

    records: dict[Identity, _Record] = field(default_factory=dict)
    runs: list[Mark] = field(default_factory=list)
    number_least: int = 0
    keeps: bool = False
    decided_count: int = 0
    _kept: dict[int, list[_Record]] = field(default_factory=dict)

    def add(self, values: Values) -> None:
        """Add one mark."""
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
        """Promise the records in the file or in shared memory too."""
        self.keeps = True

    @property
    def promised(self) -> int:
        """The number of promised records."""
        return sum(map(self.is_owed, self.records.values()))

    def is_owed(self, record: _Record) -> bool:
        """Whether the record is promised."""
        return record.fate in (MarkKind.DURABLE, MarkKind.DECIDED) or (self.keeps and record.fate is MarkKind.KEPT)

    def _sync(self, writer: int) -> None:
        """Make all KEPT records of a writer durable, because they precede the synced one."""
        for record in self._kept.pop(writer, ()):
            record.fate = MarkKind.DURABLE


Entries = list[tuple[Ref, Identity]]


@dataclass(slots=True)
class Observation:
    """The observation of a state.

    problems: violations that do not depend on the marks.
    before: the records read before a writer opened the log.  after: those at the end, without the harness's own; all_:
        with them.  sizes: of the records.  number: of the file to which the harness appended.
    """

    problems: list[str] = field(default_factory=list)
    before: Entries = field(default_factory=list)
    after: Entries = field(default_factory=list)
    all_: Entries = field(default_factory=list)
    sizes: Mapping[Identity, int] = field(default_factory=dict)
    number: int = 0


def compare(seen: Observation, least: Expectation, most: Expectation, *, in_order: bool) -> list[str]:
    """Return the violations in an observation.

    in_order: whether a KEPT record may be lost only with all that its writer appended after it.  Not after a failed
        sync: a staged record may survive one that was in the file.
    """
    wrong: list[str] = []
    there: dict[Identity, Ref] = {}
    last: dict[int, int] = {}
    for ref, identity in seen.after:
        writer, index = identity
        if identity not in most.records:
            wrong.append(f"record {index} of writer {writer}, at {ref}, was not tried")
        elif identity in there:
            wrong.append(f"record {index} of writer {writer} is in the log twice: {there[identity]}, {ref}")
        elif index < last.get(writer, -1):
            wrong.append(f"record {index} of writer {writer}, at {ref}, follows its record {last[writer]}")
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
        wrong.append(f"the log continues in file {seen.number}, but was cut over to {least.number_least}")
    return wrong


def _of_record(
    identity: Identity, record: _Record, there: Mapping[Identity, Ref], last: Mapping[int, int], least: Expectation
) -> Iterator[str]:
    writer, index = identity
    what = f"record {index} of writer {writer}"
    if identity not in there:
        if record.fate is MarkKind.DECIDED:
            yield f"{what} was promised to join the log, but is missing"
        elif least.is_owed(record):
            yield f"{what} was acknowledged, but is missing"
        elif record.fate is MarkKind.KEPT and last.get(writer, -1) > index:
            yield f"{what} is missing, but a later one is in the log"
    elif record.fate is MarkKind.REFUSED:
        yield f"{what} was refused, but is at {there[identity]}"
    if (identity in there) != ((writer, record.first) in there):
        yield f"{what} and record {record.first} belong to one call, but only one of them is in the log"


def _of_run(
    mark: Mark, there: Mapping[Identity, Ref], sizes: Mapping[Identity, int], least: Expectation
) -> Iterator[str]:
    """Check that the records of one call follow each other in one file."""
    ref = mark.ref
    for index in range(mark.first, mark.first + mark.record_count):
        identity = mark.writer, index
        found = there.get(identity)
        if found is None:
            return
        if found != ref and least.is_owed(least.records[identity]):
            yield f"record {index} of writer {mark.writer} was acknowledged at {ref}, but is at {found}"
        ref = Ref(ref.number, ref.offset + 4 + sizes[identity])


def _parts_before(seen: Observation, least: Expectation) -> Iterator[str]:
    """Check that a reader sees whole calls before a writer opened the log; of external files, perhaps only the first.

    The first one has one record.  It is then the end of the log, because an appending writer places the others first
    (decision 32).
    """
    before = {identity for _, identity in seen.before}
    for (writer, index), record in least.records.items():
        if ((writer, index) in before) == ((writer, record.first) in before):
            continue
        first_alone = record.how is How.FILES and seen.before[-1][1] == (writer, record.first)
        if not first_alone:
            yield f"a reader saw half a call of writer {writer} before a writer opened the log: record {index}"
