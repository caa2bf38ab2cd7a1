"""Random programs over a page store, compared with a simple model after each kill and each opening.

The programs also use a swap store, which has only messages that were put since it was opened.
"""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, consumes, initialize, invariant, precondition, rule

from binlog.pagestore import PageStore, PageStoreOptions, SwapAddress, SwapStore, Transaction, Xid, check_page_store
from binlog.storage.mode import Mode
from stress.memory import folder_in_memory
from tests.support.examples import examples
from tests.support.pagestores import copy_after_kill

_QUEUES = ("a", "b")
_OPTIONS = PageStoreOptions(cache_pages=8, log_bytes=16384, mode=Mode.FLUSH)
_ROLL_BYTES = 300

_Body = tuple[int, bytes]  # priority, body


class Model:
    """A transaction, and its expected effect."""

    def __init__(self, transaction: Transaction) -> None:
        self.transaction = transaction
        self.puts: list[tuple[tuple[str, ...], _Body]] = []
        self.got: list[tuple[str, int]] = []
        self.put_keys: list[tuple[str, int]] = []  # once it is prepared


class PageStoreMachine(RuleBasedStateMachine):
    """The state machine: for each queue, priorities and bodies by key, and the keys that a transaction has taken.

    prepared: transactions by name.  swapped: messages and delivery counts by address.
    """

    transactions: Bundle[Model] = Bundle("transactions")
    addresses: Bundle[SwapAddress] = Bundle("addresses")

    @initialize()
    def open(self) -> None:
        # In memory if possible: a kill does not depend on syncs, and this test does not measure their time.
        self.folder = Path(tempfile.mkdtemp(dir=folder_in_memory()))
        self.path = self.folder / "store"
        self.store = PageStore(self.path, _OPTIONS)
        self.there: dict[str, dict[int, _Body]] = {queue: {} for queue in _QUEUES}
        self.last = dict.fromkeys(_QUEUES, 0)
        self.taken: set[tuple[str, int]] = set()
        self.open_ones: list[Model] = []
        self.prepared: dict[Xid, Model] = {}
        self.xid_count = self.backup_count = 0
        self.swap = SwapStore(self.folder / "swap", roll_bytes=_ROLL_BYTES)
        self.swapped: dict[SwapAddress, tuple[bytes, int]] = {}
        for queue in _QUEUES:
            self.store.create_queue(queue)

    @rule(target=transactions)
    def begin(self) -> Model:
        model = Model(self.store.transaction())
        self.open_ones.append(model)
        return model

    @rule(
        model=transactions,
        queues=st.sampled_from([("a",), ("b",), ("b", "a")]),
        priority=st.integers(3, 5),
        size=st.sampled_from([0, 1, 30, 2019, 2020, 5000]),
        count=st.sampled_from([1, 1, 2, 70]),
    )
    def put(self, model: Model, queues: tuple[str, ...], priority: int, size: int, count: int) -> None:
        if model not in self.open_ones:
            return
        for number in range(count):
            body = b"%d" % number + bytes(size)
            if len(queues) == 1:
                model.transaction.put(queues[0], body, priority=priority)
            else:
                model.transaction.put_shared(queues, body, priority=priority)
            model.puts.append((queues, (priority, body)))

    @rule(model=transactions, queue=st.sampled_from(_QUEUES), count=st.sampled_from([1, 2, 65]))
    def get(self, model: Model, queue: str, count: int) -> None:
        if model not in self.open_ones:
            return
        for _ in range(count):
            waiting = [(-body[0], key) for key, body in self.there[queue].items() if (queue, key) not in self.taken]
            message = model.transaction.get(queue)
            if not waiting:
                assert message is None
                return
            priority, key = min(waiting)
            assert message is not None
            assert (message.key, message.priority, message.body) == (key, -priority, self.there[queue][key][1])
            self.taken.add((queue, key))
            model.got.append((queue, key))

    @rule(model=consumes(transactions))
    def commit(self, model: Model) -> None:
        if model not in self.open_ones:
            return
        model.transaction.commit()
        self._remove(model.got)
        self._add(model)
        self.open_ones.remove(model)

    def _add(self, model: Model) -> list[tuple[str, int]]:
        keys = []
        for queues, body in model.puts:
            for queue in queues:
                self.last[queue] += 1
                self.there[queue][self.last[queue]] = body
                keys.append((queue, self.last[queue]))
        return keys

    def _remove(self, keys: list[tuple[str, int]]) -> None:
        for queue, key in keys:
            del self.there[queue][key]
            self.taken.remove((queue, key))

    @rule(model=consumes(transactions))
    def roll_back(self, model: Model) -> None:
        if model not in self.open_ones:
            return
        model.transaction.rollback()
        self.taken.difference_update(model.got)
        self.open_ones.remove(model)

    @rule(model=consumes(transactions))
    def prepare(self, model: Model) -> None:
        if model not in self.open_ones:
            return
        self.xid_count += 1
        xid = Xid(1, b"%d" % self.xid_count)
        model.transaction.prepare(xid)
        model.put_keys = self._add(model)
        self.taken.update(model.put_keys)
        self.open_ones.remove(model)
        self.prepared[xid] = model

    @rule(data=st.data(), commits=st.booleans())
    @precondition(lambda self: self.prepared)
    def end_prepared(self, data: st.DataObject, commits: bool) -> None:
        assert [each.xid for each in self.store.prepared] == list(self.prepared)
        xid = data.draw(st.sampled_from(list(self.prepared)))
        model = self.prepared.pop(xid)
        if commits:
            self.store.commit_prepared(xid)
        else:
            self.store.rollback_prepared(xid)
        self._remove(model.got if commits else model.put_keys)
        self.taken.difference_update(model.put_keys if commits else model.got)

    @rule()
    def checkpoint(self) -> None:
        self.store.checkpoint()

    @rule()
    def shrink(self) -> None:
        count = self.store.shrink()
        assert (self.path / "page.db").stat().st_size == count * self.store.page_bytes
        assert not self.store._free.is_free(count - 1)

    @rule()
    def backup(self) -> None:
        self.backup_count += 1
        path = self.folder / f"backup-{self.backup_count}"
        self.store.backup(path)
        assert check_page_store(path) == []
        held = {each for model in self.prepared.values() for each in (*model.got, *model.put_keys)}
        with PageStore(path, _OPTIONS) as backup:
            assert [each.xid for each in backup.prepared] == list(self.prepared)
            for queue, messages in self.there.items():
                waiting = sorted((-body[0], key, body[1]) for key, body in messages.items() if (queue, key) not in held)
                transaction = backup.transaction()
                found = [transaction.get(queue) for _ in waiting]
                assert [each and (-each.priority, each.key, each.body) for each in found] == waiting
                assert transaction.get(queue) is None
        shutil.rmtree(path)

    @rule(target=addresses, queue=st.sampled_from(_QUEUES), size=st.sampled_from([0, 1, 100, 299, 1000]))
    def swap_out(self, queue: str, size: int) -> SwapAddress:
        body = bytes([len(self.swapped) % 256]) * size
        address = self.swap.add(queue, body)
        self.swapped[address] = body, 0
        return address

    @rule(address=addresses, delivery_count=st.integers(0, 5))
    def swap_in(self, address: SwapAddress, delivery_count: int) -> None:
        if address in self.swapped:
            assert self.swap.get(address) == self.swapped[address]
            self.swap.set_delivery_count(address, delivery_count)
            self.swapped[address] = self.swapped[address][0], delivery_count

    @rule(address=consumes(addresses))
    def swap_no_more(self, address: SwapAddress) -> None:
        if self.swapped.pop(address, None) is not None:
            self.swap.remove(address)

    @rule(kill=st.booleans())
    def open_anew(self, kill: bool) -> None:
        if kill:
            copy, swapped = copy_after_kill(self.store), copy_after_kill(self.folder / "swap")
            self.store.close()
            self.swap.close()
            for path, left in ((self.path, copy), (self.folder / "swap", swapped)):
                shutil.rmtree(path)
                left.rename(path)
        else:
            self.store.close()
            self.swap.close()
        assert check_page_store(self.path) == []
        self.store = PageStore(self.path, _OPTIONS)
        self.swap = SwapStore(self.folder / "swap", roll_bytes=_ROLL_BYTES)
        self.taken = {each for model in self.prepared.values() for each in (*model.got, *model.put_keys)}
        self.open_ones.clear()
        self.swapped.clear()

    @invariant()
    def counts_agree(self) -> None:
        for queue in _QUEUES:
            taken = sum(1 for each, _ in self.taken if each == queue)
            assert self.store.waiting_count(queue) == len(self.there[queue]) - taken

    @invariant()
    def swap_files_are_those_that_are_needed(self) -> None:
        names = {path.name.rpartition("-")[2] for path in (self.folder / "swap").glob("*.swap")}
        assert names == {f"{address.file_number}.swap" for address in self.swapped}

    def teardown(self) -> None:
        if hasattr(self, "store"):
            self.store.close()
            self.swap.close()
            assert check_page_store(self.path) == []
            shutil.rmtree(self.folder)


PageStoreMachine.TestCase.settings = settings(max_examples=examples(40), stateful_step_count=40, deadline=None)
test_programs_of_chance = pytest.mark.slow(PageStoreMachine.TestCase)
