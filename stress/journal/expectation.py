"""What a journal should hold, said in the plainest way."""

from __future__ import annotations

from copy import deepcopy

from binlog.journal.record import Deleted, Loaded, Record, TransactionContent


class Expectation:
    """The records that are there, in their order, and the transactions that go on.

    left: transactions that nobody ended, which the next load tells.  id_max: no record or transaction had a larger id.
    """

    def __init__(self) -> None:
        self.records: list[Record] = []
        self.open: dict[int, list[Record | Deleted]] = {}
        self.prepared: dict[int, bytes] = {}
        self.left: dict[int, TransactionContent] = {}
        self.id_max = 0

    def copy(self) -> Expectation:
        """As it is now."""
        return deepcopy(self)

    def has(self, record_id: int) -> bool:
        """Whether there is a record, by more than updates of one that is not there."""
        return any(record.record_id == record_id for record in self.records)

    def is_taken(self, record_id: int) -> bool:
        """Whether no record may be added with that id: there is one, or a transaction that goes on adds it."""
        return self.has(record_id) or any(_adds(items, record_id) for items in self.open.values())

    def put(self, record: Record) -> None:
        """A record, or an update, is there."""
        self.records.append(record)
        self.id_max = max(self.id_max, record.record_id)

    def take(self, record_id: int) -> None:
        """A record is not there any more."""
        self.records = [record for record in self.records if record.record_id != record_id]

    def join(self, tx_id: int, item: Record | Deleted) -> None:
        """A transaction will do something."""
        self.open.setdefault(tx_id, []).append(item)
        self.id_max = max(self.id_max, tx_id, item.record_id)

    def prepare(self, tx_id: int, extra: bytes) -> None:
        """A transaction waits for its end."""
        self.open.setdefault(tx_id, [])
        self.prepared[tx_id] = extra
        self.id_max = max(self.id_max, tx_id)

    def commit(self, tx_id: int) -> None:
        """What a transaction did is there, but updates of what is not."""
        for item in self.open.pop(tx_id):
            if isinstance(item, Deleted):
                self.take(item.record_id)
            elif not item.is_update or self.has(item.record_id):
                self.put(item)
        self.prepared.pop(tx_id, None)

    def roll_back(self, tx_id: int) -> None:
        """What a transaction did never was."""
        self.open.pop(tx_id)
        self.prepared.pop(tx_id, None)

    def reload(self) -> None:
        """Another process has it: only prepared transactions go on."""
        self.left = {tx_id: self._content(tx_id) for tx_id in self.open if tx_id not in self.prepared}
        self.open = {tx_id: items for tx_id, items in self.open.items() if tx_id in self.prepared}

    def differs(self, loaded: Loaded) -> str:
        """What a load told that is not so; nothing where all is."""
        if loaded.records != self.records:
            return f"there are {_brief(loaded.records)}, and should be {_brief(self.records)}"
        prepared = {each.tx_id: each for each in loaded.prepared}
        expected = {tx_id: self._content(tx_id) for tx_id in self.prepared}
        if prepared != expected:
            return f"prepared are {prepared}, and should be {expected}"
        if {each.tx_id: each for each in loaded.failed} != self.left:
            return f"failed are {loaded.failed}, and should be {self.left}"
        return ""

    def _content(self, tx_id: int) -> TransactionContent:
        items = self.open[tx_id]
        return TransactionContent(
            tx_id,
            self.prepared.get(tx_id, b""),
            [item for item in items if isinstance(item, Record)],
            [item for item in items if isinstance(item, Deleted)],
        )


def _adds(items: list[Record | Deleted], record_id: int) -> bool:
    adds = False
    for item in items:
        if item.record_id == record_id and (isinstance(item, Deleted) or not item.is_update):
            adds = isinstance(item, Record)
    return adds


def _brief(records: list[Record]) -> list[tuple[int, int, bool]]:
    return [(record.record_id, len(record.body), record.is_update) for record in records]
