from __future__ import annotations

import json
import os
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from binlog.errors import AccessError, BusyError, ClosedError, CorruptError, NotFoundError, VersionError
from binlog.format.pagestore.other_files import parse_subscriber, subscriber_file_name
from binlog.pagestore import DurableSubscriber, DurableSubscribers, SwapStore
from tests.support.interruptions import Interruption

ONE = DurableSubscriber("client", "prices", "stocks.*", "price > 7", no_local=True)


def test_subscribers_exist_until_they_are_removed(tmp_path: Path) -> None:
    other = DurableSubscriber("client$prices", "ä/..", "stocks")
    with DurableSubscribers(tmp_path) as subscribers:
        assert subscribers.find("client", "prices") is None
        for each in (ONE, other):
            subscribers.save(each)
        with pytest.raises(BusyError):
            DurableSubscribers(tmp_path)
    with DurableSubscribers(tmp_path) as subscribers:
        assert subscribers.all() == [ONE, other]
        changed = ONE._replace(selector=None)
        subscribers.save(changed)
        assert subscribers.find("client", "prices") == changed
        subscribers.remove("client", "prices")
        with pytest.raises(NotFoundError):
            subscribers.remove("client", "prices")
        assert subscribers.all() == [other]
    with pytest.raises(ClosedError):
        subscribers.all()


def test_a_subscriber_file_is_readable_json() -> None:
    text = ONE.pack().decode()
    assert list(json.loads(text)) == ["version", "client_id", "name", "topic", "selector", "no_local", "crc"]
    assert ONE.file_name == subscriber_file_name("client", "prices")
    assert ONE.file_name == "client$prices.durable"
    assert subscriber_file_name("a", "b$c") == "a$b%24c.durable"
    assert subscriber_file_name("a$b", "c") == "a%24b$c.durable"
    assert subscriber_file_name("..", "Ä/~") == "%2E.$%C3%84%2F%7E.durable"
    long = [subscriber_file_name("c" * 300, name) for name in ("one", "two")]
    assert long[0] != long[1]
    assert all(name.startswith("c" * 120) and len(name) < 200 for name in long)


@given(st.lists(st.tuples(st.text(max_size=300), st.text(max_size=300)), unique=True, min_size=2, max_size=5))
@pytest.mark.slow
def test_no_two_subscribers_share_a_file(pairs: list[tuple[str, str]]) -> None:
    names = [subscriber_file_name(*pair) for pair in pairs]
    assert len(set(names)) == len(pairs)
    assert all("/" not in name and not name.startswith(".") and len(name) <= 255 for name in names)


@given(st.builds(DurableSubscriber, st.text(), st.text(), st.text(), st.none() | st.text(), st.booleans()), st.data())
@pytest.mark.slow
def test_subscribers_round_trip_or_are_refused(one: DurableSubscriber, data: st.DataObject) -> None:
    packed = one.pack()
    assert parse_subscriber(packed, one.file_name, "file") == one
    at = data.draw(st.integers(0, len(packed) - 1))
    damaged = packed[:at] + bytes([data.draw(st.integers(0, 255))]) + packed[at + 1 :]
    with suppress(CorruptError, VersionError):
        assert parse_subscriber(damaged, one.file_name, "file") == one
    with pytest.raises(CorruptError):
        parse_subscriber(packed, subscriber_file_name("another", "one"), "file")


@pytest.mark.parametrize("text", [b"", b"[]", b"{}", b'{"version": 1, "crc": 1}', b"[" * 100_000, b"\xff"])
def test_an_invalid_subscriber_file_is_refused(text: bytes) -> None:
    with pytest.raises(CorruptError):
        parse_subscriber(text, "name", "file")


def test_an_unfinished_file_is_removed_and_the_old_one_stays(tmp_path: Path) -> None:
    with DurableSubscribers(tmp_path) as subscribers:
        subscribers.save(ONE)
    (tmp_path / f"{ONE.file_name}.new").write_bytes(b"{")
    with DurableSubscribers(tmp_path) as subscribers:
        assert subscribers.all() == [ONE]
    assert sorted(os.listdir(tmp_path)) == sorted([ONE.file_name, "subscribers.lock"])


@pytest.mark.slow
def test_an_interrupted_save_leaves_the_old_or_the_new_subscriber(tmp_path: Path) -> None:
    changed = ONE._replace(topic="changed")
    at, found = 0, set()
    while True:
        path = tmp_path / str(at)
        with DurableSubscribers(path) as subscribers:
            subscribers.save(ONE)
            was_interrupted = Interruption(at).run(lambda: subscribers.save(changed))
            subscribers.save(ONE._replace(client_id="behind"))
            found.add(subscribers.find("client", "prices"))
        if not was_interrupted:
            break
        at += 1
    assert found == {ONE, changed}


@pytest.mark.parametrize(("kind", "name"), [(DurableSubscribers, "a.durable.new"), (SwapStore, "a-1.swap")])
def test_a_failed_cleanup_can_be_retried_by_opening_again(
    tmp_path: Path, kind: type[DurableSubscribers | SwapStore], name: str
) -> None:
    """Regression: the folder stayed locked by this process, and could not be opened again."""
    (tmp_path / name).mkdir()
    with pytest.raises(AccessError):
        kind(tmp_path)
    (tmp_path / name).rmdir()
    kind(tmp_path).close()
