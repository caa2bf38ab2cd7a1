"""Redelivery in a page store: delivery counts that survive the process, delays, and dead letters."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from binlog.cli.main import main
from binlog.format.pagestore.other_files import DELIVERIES_FILE
from binlog.pagestore import Message, PageStore, PageStoreOptions, Transaction, Xid, check_page_store, read_queue
from binlog.pagestore import deliveries as module
from binlog.storage.mode import Mode
from tests.support.children import killed_after
from tests.support.journals import flip
from tests.support.pagestores import take

OPTIONS = PageStoreOptions(mode=Mode.FLUSH, deliveries_max=5)


def _run_and_kill(path: Path, work: Callable[[PageStore], object]) -> None:
    """Run a process that opens the store, does something, and is killed."""
    killed_after(lambda: work(PageStore(path, OPTIONS)))


def _filled_store(path: Path, *bodies: bytes) -> Path:
    with PageStore(path, OPTIONS) as store:
        store.create_queue("q")
        with store.transaction() as transaction:
            for body in bodies:
                transaction.put("q", body)
    return path


def _get(store: PageStore, queue: str = "q") -> tuple[Transaction, Message | None]:
    transaction = store.transaction()
    return transaction, transaction.get(queue)


def _get_and_remove(store: PageStore, queue: str = "q") -> tuple[bytes, int]:
    """Get and remove a message, and return its body and its delivery count."""
    got = take(store, queue)
    assert got is not None
    return got.body, got.delivery_count


def _get_and_checkpoint(store: PageStore) -> object:
    kept = _get(store)
    store.checkpoint()
    return kept


@pytest.mark.slow
def test_a_message_that_kills_its_process_becomes_a_dead_letter(tmp_path: Path) -> None:
    path = _filled_store(tmp_path / "s", b"poison", b"other")
    for count in range(5):
        _run_and_kill(path, _get)
        assert check_page_store(path) == []
        assert [message.delivery_count for message in read_queue(path, "q")] == [count + 1, 0]
    with PageStore(path, OPTIONS) as store:
        assert _get_and_remove(store) == (b"other", 0)
        assert store.waiting_count("q") == 0
        assert _get_and_remove(store, "dead-letters") == (b"poison", 0)
    assert check_page_store(path) == []


@pytest.mark.slow
def test_commands_show_delivery_counts(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    path = _filled_store(tmp_path / "s", b"one", b"two")
    _run_and_kill(path, _get)
    assert main(["pagestore", "stat", str(path), "--json"]) == 0
    assert json.loads(capfd.readouterr().out)["queues"][0]["delivered_count"] == 1
    assert main(["pagestore", "print", str(path), "q", "--json"]) == 0
    assert [json.loads(line)["delivery_count"] for line in capfd.readouterr().out.splitlines()] == [1, 0]


@pytest.mark.slow
def test_deaths_and_rollbacks_both_count(tmp_path: Path) -> None:
    path = _filled_store(tmp_path / "s", b"one")
    _run_and_kill(path, _get)
    with PageStore(path, OPTIONS) as store:
        transaction, got = _get(store)
        assert got is not None
        assert got.delivery_count == 1
        transaction.rollback(delay=0)
    _run_and_kill(path, _get)
    _run_and_kill(path, _get_and_checkpoint)
    assert [message.delivery_count for message in read_queue(path, "q")] == [4]


@pytest.mark.slow
def test_other_messages_are_delivered_during_a_delay(tmp_path: Path) -> None:
    path = _filled_store(tmp_path / "s", b"poison", b"other")
    with PageStore(path, OPTIONS) as store:
        for turn in range(2):
            transaction, got = _get(store)
            assert got is not None
            assert (got.body, got.delivery_count) == (b"poison", turn)
            began = time.monotonic()
            transaction.rollback(delay=turn * 0.5)
        assert store.waiting_count("q") == 1
        assert _get_and_remove(store)[0] == b"other"
        while (found := _get(store))[1] is None:
            assert time.monotonic() - began < 20
        assert time.monotonic() - began >= 0.5
        found[0].rollback(delay=60)
        assert _get(store)[1] is None
        for wrong in (-1.0, float("nan")):
            with pytest.raises(ValueError, match="delay"):
                store.transaction().rollback(delay=wrong)
        store.delete_queue("q")  # a waiting message is not taken
    assert check_page_store(path) == []


def test_the_last_rollback_makes_a_message_a_dead_letter(tmp_path: Path) -> None:
    path = _filled_store(tmp_path / "s", b"poison")
    options = PageStoreOptions(mode=Mode.FLUSH, deliveries_max=2, dead_letters="dead")
    with PageStore(path, options) as store:
        for turn in range(2):
            assert ("dead" in store.queues) is False
            transaction, got = _get(store)
            assert got is not None, turn
            transaction.rollback(delay=0)
        assert (store.waiting_count("q"), store.waiting_count("dead")) == (0, 1)
        for _ in range(4):  # dead letters stay
            transaction, got = _get(store, "dead")
            assert got is not None
            transaction.rollback(delay=0)
    with pytest.raises(ValueError, match="deliveries_max"):
        PageStoreOptions(deliveries_max=0)
    assert check_page_store(path) == []


def test_a_shared_message_becomes_a_dead_letter_in_one_queue_only(tmp_path: Path) -> None:
    path = tmp_path / "s"
    with PageStore(path, PageStoreOptions(mode=Mode.FLUSH, deliveries_max=1)) as store:
        for name in ("a", "b"):
            store.create_queue(name)
        with store.transaction() as transaction:
            transaction.put_shared(("a", "b"), b"shared" * 1000)
        transaction, got = _get(store, "a")
        assert got is not None
        transaction.rollback()
        for name in ("b", "dead-letters"):
            assert _get_and_remove(store, name) == (b"shared" * 1000, 0)
    assert check_page_store(path) == []


@pytest.mark.slow
def test_rollback_of_a_prepared_transaction_counts_deliveries(tmp_path: Path) -> None:
    path = _filled_store(tmp_path / "s", b"one")
    xid = Xid(1, b"x")

    def prepare(store: PageStore) -> object:
        transaction = store.transaction()
        transaction.get("q")
        transaction.prepare(xid)
        return transaction

    _run_and_kill(path, _get)
    _run_and_kill(path, prepare)
    with PageStore(path, OPTIONS) as store:
        store.rollback_prepared(xid)
        assert read_queue(path, "q")[0].delivery_count == 2


@pytest.mark.slow
def test_counts_do_not_apply_to_a_queue_created_later(tmp_path: Path) -> None:
    """The new queue has the pages and keys of the deleted one."""
    path = _filled_store(tmp_path / "s", b"one")
    _run_and_kill(path, _get)
    with PageStore(path, OPTIONS) as store:
        store.delete_queue("q")
    _filled_store(path, b"one")
    assert [message.delivery_count for message in read_queue(path, "q")] == [0]
    with PageStore(path, OPTIONS) as store:
        assert _get_and_remove(store)[1] == 0


@pytest.mark.slow
def test_the_file_of_counts_does_not_grow_for_ever(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_BYTES_MAX", 4096)
    path = _filled_store(tmp_path / "s", *[b"%d" % number for number in range(10)])
    with PageStore(path, OPTIONS) as store:
        kept = _get(store)
        for _ in range(1000):
            with store.transaction() as transaction:
                got = transaction.get("q")
                assert got is not None
                transaction.put("q", got.body)
        assert (path / DELIVERIES_FILE).stat().st_size <= 4096 + 64
        assert kept is not None
        assert read_queue(path, "q")[0].delivery_count == 1


@pytest.mark.parametrize("at", [0, 20, 32, 63])
@pytest.mark.slow
def test_damaged_counts_are_ignored(tmp_path: Path, at: int) -> None:
    path = _filled_store(tmp_path / "s", b"one", b"two")
    _run_and_kill(path, lambda store: [_get(store), _get(store)])
    flip(path / DELIVERIES_FILE, at)
    counts = [message.delivery_count for message in read_queue(path, "q")]
    assert counts == ([0, 0] if at < 32 else [0, 1])
    with PageStore(path, OPTIONS) as store:
        kept = [_get(store) for _ in range(2)]
        found = [each[1] and each[1].delivery_count for each in kept]
    assert found == counts
    assert [message.delivery_count for message in read_queue(path, "q")] == [count + 1 for count in counts]


def test_messages_are_delivered_without_room_for_counts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = _filled_store(tmp_path / "s", b"one", b"two")
    with PageStore(path, OPTIONS) as store:
        kept = [_get(store)]
        with monkeypatch.context() as patched:
            patched.setattr(module, "write_gil_held", lambda *_: 28)  # ENOSPC
            kept.append(_get(store))
        assert all(each[1] is not None for each in kept)
