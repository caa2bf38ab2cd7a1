"""What must be true of a queue whose processes were killed: by their marks, and by what was found in it in the end.

1. A message that was put, and of which nobody said that it is done with, is found, once; so are those of a transaction
   that was committed.
2. A message that was acknowledged is never given again; where its process died in the middle, it may be.
3. No process is given a message twice, and nothing is given that was never put, or whose transaction was dropped.
4. Of a transaction whose process died in the middle of the commit all is there, or nothing.
5. Those who get are given the messages of a producer in the order in which it put them.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator

from stress.paging.ledger import Identity, Mark, What

_Who = tuple[int, int, int]


class _Transaction:
    """again: messages of `acked` that were given again after its commit was tried."""

    def __init__(self) -> None:
        self.put: list[Identity] = []
        self.acked: list[Identity] = []
        self.again: set[Identity] = set()
        self.fate: What | None = None


class Judge:
    """All marks, and what they come to."""

    def __init__(self, marks: Iterable[Mark]) -> None:
        self._wrong: list[str] = []
        self._tried: set[Identity] = set()
        self._put: set[Identity] = set()
        self._ack_tried: set[Identity] = set()
        self._acked: set[Identity] = set()
        self._given: set[Identity] = set()
        self._of_life: set[tuple[int, Identity]] = set()
        self._last_to_ack: dict[Identity, _Transaction] = {}
        self._last: dict[tuple[int, ...], int] = {}
        self._transactions: dict[_Who, _Transaction] = defaultdict(_Transaction)
        for mark in marks:
            self._take(mark)

    def _take(self, mark: Mark) -> None:
        what, message = mark.what, mark.message
        transaction = self._transactions[mark.life, mark.thread, mark.tx] if mark.tx else _Transaction()
        if what in (What.PUT_TRIED, What.TX_PUT):
            self._tried.add(message)
            transaction.put.append(message)
        elif what is What.PUT_DONE:
            self._put.add(message)
        elif what is What.GOT:
            self._get(mark.life, mark.thread, message)
        elif what is What.ACK_TRIED:
            self._ack_tried.add(message)
        elif what is What.ACK_DONE:
            self._acked.add(message)
        elif what is What.TX_ACK:
            transaction.acked.append(message)
        elif what in (What.TX_TRIED, What.TX_DONE, What.TX_DROPPED):
            transaction.fate = what
            if what is What.TX_TRIED:
                self._ack_tried.update(transaction.acked)
                self._last_to_ack.update(dict.fromkeys(transaction.acked, transaction))
            elif what is What.TX_DROPPED:
                self._ack_tried.difference_update(transaction.acked)
            elif what is What.TX_DONE:
                self._put.update(transaction.put)
                self._acked.update(transaction.acked)

    def _get(self, life: int, thread: int, message: Identity) -> None:
        if message not in self._tried:
            self._wrong.append(f"{message} was given, and never put")
        if message in self._acked:
            self._wrong.append(f"{message} was given after it was acknowledged")
        if (life, message) in self._of_life:
            self._wrong.append(f"{message} was given twice in process {life}")
        self._of_life.add((life, message))
        self._given.add(message)
        if transaction := self._last_to_ack.get(message):
            transaction.again.add(message)
        producer = (life, thread, message.life, message.producer)
        if self._last.get(producer, 0) >= message.number:
            self._wrong.append(f"{message} was given behind number {self._last[producer]}")
        self._last[producer] = message.number

    def wrong(self, found: list[Identity]) -> list[str]:
        """What is wrong, where these messages were got, one after the other, in the end."""
        for message in found:
            self._get(-1, -1, message)
        there = set(found)
        lost = self._put - self._ack_tried - self._acked - there
        self._wrong += [f"{message} was put, and is not there" for message in sorted(lost)]
        self._wrong += self._halves()
        return self._wrong

    def _halves(self) -> Iterator[str]:
        for who, transaction in self._transactions.items():
            if transaction.fate in (None, What.TX_DROPPED):
                for message in self._given.intersection(transaction.put):
                    yield f"{message} of a transaction {who} that was never committed was given"
            elif transaction.fate is What.TX_TRIED:
                given = self._given.intersection(transaction.put)
                if given and len(given) < len(transaction.put):
                    yield f"of the transaction {who} {len(given)} of {len(transaction.put)} messages were given"
                for message in transaction.acked:
                    if bool(given) is (message in transaction.again):
                        yield f"{message} and the transaction {who} that acknowledged it do not agree"
