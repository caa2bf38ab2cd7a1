"""The records that a journal must have, and may have, by the marks; and the comparison of a load with them.

No two actors touch the same record at a time, and no record id is reused.  So each record is checked on its own: it
must have all promised adds and updates, unless a delete that was tried may have removed it, and none whose transaction
was not committed, or that an earlier load did not return.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field

from binlog.format.journal.record import Kind
from stress.crash.marks import Values
from stress.crash.records import Identity
from stress.crash.system import Crash
from stress.crash.systems.journal.marks import CHECKERS, LoadedState, Mark, MarkKind, Operation, mark_of

_TX_PARTS = (Kind.ADD_TX, Kind.UPDATE_TX, Kind.DELETE_TX)
_DELETES = (Kind.DELETE, Kind.DELETE_TX)
_UPDATES = (Kind.UPDATE, Kind.UPDATE_TX)
_ENDS = (Kind.COMMIT, Kind.ROLLBACK)


@dataclass
class Expectation:
    """The state of a journal according to the marks until some tick.

    operations: calls that were tried and not refused.  durable: the last promised call of each writer.
    there, gone: calls that a load returned as done, and as not done.  failed: transactions that were reported as
        failed.
    maybe_reported: transactions that were open when a load began; it may have reported them before its process died.
    problems: whether a load reported damage.
    """

    operations: dict[Identity, Operation] = field(default_factory=dict)
    durable: dict[int, int] = field(default_factory=dict)
    there: set[Identity] = field(default_factory=set)
    gone: set[Identity] = field(default_factory=set)
    failed: set[int] = field(default_factory=set)
    maybe_reported: set[int] = field(default_factory=set)
    problems: bool = False
    _told: list[Mark] = field(default_factory=list)

    def add(self, values: Values) -> None:
        """Add one mark."""
        mark = mark_of(values)
        operation = mark.operation
        match mark.mark_kind:
            case MarkKind.TRIED:
                self.operations[operation.identity] = operation
            case MarkKind.REFUSED:
                self.operations.pop(operation.identity, None)
            case MarkKind.DURABLE:
                self.durable[operation.writer] = max(operation.number, self.durable.get(operation.writer, -1))
            case MarkKind.LOADING:
                self._told = []
                ended = {each.tx_id for each in self.operations.values() if each.kind in (*_ENDS, Kind.PREPARE)}
                self.maybe_reported |= {each.tx_id for each in self.operations.values() if each.tx_id} - ended
            case MarkKind.LOADED:
                self._load(bool(operation.record_id))
            case _:
                self._told.append(mark)

    def is_promised(self, operation: Operation) -> bool:
        """Whether the call must survive."""
        if operation.identity in self.gone:
            return False
        return operation.number <= self.durable.get(operation.writer, -1) or operation.identity in self.there

    def died(self) -> None:
        """Do nothing: the promises of a journal do not depend on how a process ended."""

    @property
    def promised(self) -> int:
        """The number of calls that must survive."""
        return sum(map(self.is_promised, self.operations.values()))

    def _load(self, problems: bool) -> None:
        """Note the result of a load: calls that it returned are done for good, and all others are gone for good."""
        state = {mark.operation.identity for mark in self._told if mark.mark_kind is MarkKind.RETURNED}
        prepared = {mark.operation.tx_id for mark in self._told if mark.mark_kind is MarkKind.PREPARED}
        self.failed |= {mark.operation.tx_id for mark in self._told if mark.mark_kind is MarkKind.FAILED}
        records = {self.operations[each].record_id for each in state if each in self.operations}
        for operation in self.operations.values():
            if operation.identity in self.gone:
                continue
            if operation.kind is Kind.PREPARE:
                is_there = operation.tx_id in prepared
            elif operation.tx_id in prepared:
                if operation.kind in _ENDS:
                    self.gone.add(operation.identity)
                continue
            elif operation.kind in _ENDS:
                continue  # visible in the transaction's records
            elif operation.kind in _DELETES:
                if operation.record_id in records:
                    self.gone.add(operation.identity)
                continue  # a missing record's adds and updates are gone, whichever call deleted it
            else:
                is_there = operation.identity in state
            (self.there if is_there else self.gone).add(operation.identity)
        self.problems |= problems
        self._told = []


def compare(state: LoadedState, least: Expectation, most: Expectation, crash: Crash = Crash.POWER) -> list[str]:
    """Return the violations in the result of a load.  least: the promised state; most: the calls tried."""
    return _Comparison(state, least, most, crash).wrong


class _Comparison:
    def __init__(self, state: LoadedState, least: Expectation, most: Expectation, crash: Crash) -> None:
        self._told = state
        self._least = least
        self._operations = most.operations
        self._of_tx: dict[int, list[Operation]] = defaultdict(list)
        self._ends: dict[int, list[Operation]] = defaultdict(list)
        self._prepares: dict[int, Operation] = {}
        for operation in most.operations.values():
            if operation.kind in _TX_PARTS:
                self._of_tx[operation.tx_id].append(operation)
            elif operation.kind in _ENDS:
                if operation.identity not in least.gone:
                    self._ends[operation.tx_id].append(operation)
            elif operation.kind is Kind.PREPARE:
                self._prepares[operation.tx_id] = operation
        self._in_order_until = self._evident() if crash is not Crash.POWER else {}
        self.wrong = [*state.wrong]
        self._all_tried()
        self._records()
        known = self._of_tx.keys() | self._prepares.keys()
        for tx_id in known:
            self._transaction(tx_id)
        for tx_id in (state.prepared.keys() | state.failed.keys()) - known:
            self.wrong.append(f"the transaction {tx_id} is reported, but was not tried")
        self._damage(crash)
        promised = [max(each.tx_id, each.record_id) for each in most.operations.values() if self._promised(each)]
        if state.keeps_ids and state.id_max < max(promised, default=0):
            self.wrong.append(f"the largest id is reported as {state.id_max}, but {max(promised)} was used")

    def _evident(self) -> dict[int, int]:
        """Return the last call of each writer that was evidently done, which means that those before it were too."""
        until: dict[int, int] = {}
        seen = [*self._told.records]
        for content in (*self._told.prepared.values(), *self._told.failed.values()):
            seen += [*content.parts, *([content.extra] if content.extra else [])]
        seen += [
            end.identity
            for tx_id, parts in self._of_tx.items()
            for end in self._ends[tx_id]
            if end.kind is Kind.COMMIT and any(part.identity in self._told.records for part in parts)
        ]
        for writer, number in seen:
            until[writer] = max(number, until.get(writer, -1))
        return until

    def _promised(self, operation: Operation) -> bool:
        if operation.identity in self._least.gone:
            return False
        return self._least.is_promised(operation) or operation.number <= self._in_order_until.get(operation.writer, -1)

    def _commit(self, tx_id: int) -> Operation | None:
        return next((end for end in self._ends[tx_id] if end.kind is Kind.COMMIT), None)

    def _may_be(self, operation: Operation) -> bool:
        """Whether the call may have been done and its transaction committed."""
        if operation.identity in self._least.gone:
            return False
        return operation.kind not in _TX_PARTS or self._commit(operation.tx_id) is not None

    def _must_be(self, operation: Operation) -> bool:
        if operation.kind not in _TX_PARTS:
            return self._promised(operation)
        commit = self._commit(operation.tx_id)
        if operation.identity in self._least.gone or commit is None:
            return False
        # A prepared transaction that is not reported as prepared was ended.
        prepare = self._prepares.get(operation.tx_id)
        ended = (
            prepare is not None
            and self._promised(prepare)
            and operation.tx_id not in self._told.prepared
            and len(self._ends[operation.tx_id]) == 1
        )
        return self._promised(commit) or ended or operation.identity in self._least.there

    def _all_tried(self) -> None:
        for identity, (record_id, is_update) in self._told.records.items():
            operation = self._operations.get(identity)
            if identity[0] in CHECKERS:
                continue
            if operation is None:
                self.wrong.append(f"{identity} exists, but was not tried, or was refused")
            elif (operation.record_id, operation.kind in _UPDATES) != (record_id, is_update):
                self.wrong.append(f"{operation} is returned as record {record_id}, is_update={is_update}")

    def _records(self) -> None:
        changes: dict[int, list[Operation]] = defaultdict(list)
        deletes: dict[int, list[Operation]] = defaultdict(list)
        for operation in self._operations.values():
            if operation.record_id:
                (deletes if operation.kind in _DELETES else changes)[operation.record_id].append(operation)
        place = {identity: number for number, identity in enumerate(self._told.records)}
        for record_id, all_ in changes.items():
            shown = [each for each in all_ if each.identity in place]
            self.wrong += [f"{each} exists, but must not" for each in shown if not self._may_be(each)]
            if shown and (deleted := [each for each in deletes[record_id] if self._must_be(each)]):
                self.wrong.append(f"the record {record_id} exists, but {deleted[0]} has deleted it")
            elif shown or not any(self._may_be(each) for each in deletes[record_id]):
                self.wrong += [
                    f"{each} is promised, but missing" for each in all_
                    if each.identity not in place and self._must_be(each)
                ]  # fmt: skip
            if [place[each.identity] for each in shown] != sorted(place[each.identity] for each in shown):
                self.wrong.append(f"the updates of record {record_id} are not in order")

    def _transaction(self, tx_id: int) -> None:
        parts = self._of_tx[tx_id]
        self._whole(tx_id, parts)
        prepare, ends = self._prepares.get(tx_id), self._ends[tx_id]
        content = self._told.prepared.get(tx_id)
        named = f"the transaction {tx_id}"
        ended = [end for end in ends if self._promised(end)]
        if content is not None:
            wanted = [part.identity for part in parts if part.kind not in _DELETES]
            wanted += [part.identity for part in parts if part.kind in _DELETES]
            if prepare is None or prepare.identity in self._least.gone or ended:
                self.wrong.append(f"{named} is reported as prepared, but may not be")
            elif (content.parts, content.extra) != (tuple(wanted), prepare.identity):
                self.wrong.append(f"{named} is prepared with {content}, not {wanted}, {prepare.identity}")
            if any(part.identity in self._told.records for part in parts):
                self.wrong.append(f"{named} is prepared, but its records exist")
        elif prepare is not None and self._promised(prepare) and not ends:
            self.wrong.append(f"{named} is prepared, but not reported as prepared")
        if tx_id in self._told.failed:
            if ended or tx_id in self._least.failed or (prepare is not None and self._promised(prepare)):
                self.wrong.append(
                    f"{named} is reported as failed, but has ended, or was reported before, or is prepared"
                )
            if any(part.identity in self._told.records for part in parts):
                self.wrong.append(f"{named} is reported as failed, but its records exist")
            return
        told_before = self._least.failed | self._least.maybe_reported
        if not ends and prepare is None and tx_id not in told_before and any(map(self._promised, parts)):
            self.wrong.append(f"{named} was not ended, but not reported as failed")

    def _whole(self, tx_id: int, parts: list[Operation]) -> None:
        """Check that a transaction took effect as a whole or not at all, as far as other calls on its records allow."""
        records = {self._operations[each].record_id for each in self._told.records if each in self._operations}
        done = [part for part in parts if part.identity in self._told.records]
        others_delete = {
            each.record_id
            for each in self._operations.values()
            if each.kind in _DELETES and each.tx_id != tx_id and self._may_be(each)
        }
        undone = [
            part
            for part in parts
            if (part.record_id in records if part.kind in _DELETES else part.identity not in self._told.records)
            and (part.kind is not Kind.ADD_TX or part.record_id not in others_delete)
            and (part.kind is not Kind.UPDATE_TX or part.record_id in records)
        ]
        if done and undone:
            self.wrong.append(f"the transaction {tx_id} took effect in part: {done} without {undone}")

    def _damage(self, crash: Crash) -> None:
        """Check that damage is reported only if a write that was not promised may be half there."""
        rules = {Crash.POWER: {"tail", "gap", "transaction", "update"}, Crash.TORN: {"tail"}, Crash.KILL: set[str]()}
        unsure = any(
            not self._promised(each) and each.identity not in self._least.gone for each in self._operations.values()
        )
        allowed = rules[crash] if unsure or self._may_be_rolled_back() else set()
        if not self._least.problems and not allowed.issuperset(self._told.problems):
            self.wrong.append(f"damage is reported, but there is none: {self._told.problems}")

    def _may_be_rolled_back(self) -> bool:
        """Whether a load may have appended a ROLLBACK: a transaction has no end, and no load has reported that yet."""
        ended = self._least.failed | self._prepares.keys()
        return any(tx_id not in ended and not self._ends[tx_id] for tx_id in self._of_tx)
