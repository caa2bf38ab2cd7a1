"""The model of a journal's contents."""

from __future__ import annotations

from copy import deepcopy

from binlog.journal.record import Deleted, Loaded, Record, TransactionContent


class Expectation:
    """The expected records, in their order, and transactions.

    left: transactions that were left open, which the next load reports.  id_max: the largest id so far.
    """

    def __init__(self) -> None:
        self.records: list[Record] = []
        self.open: dict[int, list[Record | Deleted]] = {}
        self.prepared: dict[int, bytes] = {}
        self.left: dict[int, TransactionContent] = {}
        self.id_max = 0

    def copy(self) -> Expectation:
        """Return a copy."""
        return deepcopy(self)

    def has(self, record_id: int) -> bool:
        """Whether a record has this id, or updates without a record."""
        return any(record.record_id == record_id for record in self.records)

    def is_taken(self, record_id: int) -> bool:
        """Whether the id cannot be added: a record has it, or an open transaction adds it."""
        return self.has(record_id) or any(_adds(items, record_id) for items in self.open.values())

    def put(self, record: Record) -> None:
        """Add a record or an update."""
        self.records.append(record)
        self.id_max = max(self.id_max, record.record_id)

    def take(self, record_id: int) -> None:
        """Delete a record."""
        self.records = [record for record in self.records if record.record_id != record_id]

    def join(self, tx_id: int, item: Record | Deleted) -> None:
        """Add an operation to a transaction."""
        self.open.setdefault(tx_id, []).append(item)
        self.id_max = max(self.id_max, tx_id, item.record_id)

    def prepare(self, tx_id: int, extra: bytes) -> None:
        """Prepare a transaction."""
        self.open.setdefault(tx_id, [])
        self.prepared[tx_id] = extra
        self.id_max = max(self.id_max, tx_id)

    def commit(self, tx_id: int) -> None:
        """Commit a transaction; updates of unknown records have no effect."""
        for item in self.open.pop(tx_id):
            if isinstance(item, Deleted):
                self.take(item.record_id)
            elif not item.is_update or self.has(item.record_id):
                self.put(item)
        self.prepared.pop(tx_id, None)

    def roll_back(self, tx_id: int) -> None:
        """Roll back a transaction."""
        self.open.pop(tx_id)
        self.prepared.pop(tx_id, None)

    def reload(self) -> None:
        """Reload: only prepared transactions stay open."""
        self.left = {tx_id: self._content(tx_id) for tx_id in self.open if tx_id not in self.prepared}
        self.open = {tx_id: items for tx_id, items in self.open.items() if tx_id in self.prepared}

    def differs(self, loaded: Loaded) -> str:
        """Return how a load differs from the model; an empty text if it does not."""
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
