"""`binlog pagestore`: stat, print, check, backup, shrink and xa."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from binlog.cli.main import main
from binlog.cli.pagestore import command
from binlog.pagestore import PageStore, Xid
from tests.support.journals import flip
from tests.support.pagestores import drain, peek, put

XID = "7:676c6f62616c:62"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A page store with two queues and a prepared transaction."""
    made = tmp_path / "store"
    with PageStore(made) as store:
        for name in ("orders", "paid"):
            store.create_queue(name)
        put(store, *(b"%d" % number for number in range(100)))
        with store.transaction() as transaction:
            transaction.put("paid", b"\xff", priority=9, expiration=5)
        with store.transaction() as transaction:
            for _ in range(70):
                transaction.get("orders")
        transaction = store.transaction()
        transaction.get("orders")
        transaction.put("paid", b"prepared")
        transaction.prepare(Xid(7, b"global", b"b"))
    return made


def _say(capfd: pytest.CaptureFixture[str], *arguments: object, code: int = 0) -> str:
    capfd.readouterr()
    assert main(["pagestore", *map(str, arguments)]) == code
    captured = capfd.readouterr()
    return captured.out if code == 0 else captured.out + captured.err


@pytest.mark.parametrize("name", command.commands)
def test_every_command_has_help(name: str, capfd: pytest.CaptureFixture[str]) -> None:
    assert _say(capfd, name, "--help").startswith(f"Usage: binlog pagestore {name} ")


@pytest.mark.slow
def test_stat_shows_pages_and_queues_while_the_owner_runs(path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    lines = _say(capfd, "stat", path).splitlines()
    assert lines[0].endswith("free; not open")
    assert lines[1].endswith("0 records in the log; 1 prepared transaction")
    assert [line.split() for line in lines[3:]] == [["orders", "30", "1", "1"], ["paid", "2", "0", "1"]]
    with PageStore(path) as store:
        put(store, b"more")
        assert "open in" in _say(capfd, "stat", path)
        found = json.loads(_say(capfd, "stat", path, "--json"))
        assert (found["queues"][0]["message_count"], found["record_count"], found["prepared"]) == (31, 1, [XID])
        assert _say(capfd, "check", path) == "no problems found\n"


def test_print_has_a_line_for_each_message(path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert _say(capfd, "print", path, "orders", "--count", 2).splitlines() == ["70", "71"]
    found = list(map(json.loads, _say(capfd, "print", path, "paid", "--json").splitlines()))
    assert [(each["key"], each["priority"], each["expiration"], each.get("text")) for each in found] == [
        (1, 9, 5, None), (2, 4, 0, "prepared"),
    ]  # fmt: skip
    assert "other" in _say(capfd, "print", path, "other", code=3)


def test_check_reports_damage(path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    flip(path / "page.db", 100)
    assert "page.db at offset 0: page 0 is damaged [page_crc]" in _say(capfd, "check", path, code=1)
    assert "page_crc" in _say(capfd, "stat", path, code=3)


@pytest.mark.parametrize("end", ["commit", "rollback"])
@pytest.mark.slow
def test_a_prepared_transaction_is_committed_or_rolled_back_by_hand(
    path: Path, capfd: pytest.CaptureFixture[str], end: str
) -> None:
    assert _say(capfd, "xa", path).split()[::2] == [XID, "+paid:2"]
    assert _say(capfd, "xa", path).split()[3] == "-orders:71"
    with PageStore(path):
        assert "belongs to" in _say(capfd, "xa", path, f"--{end}", XID, code=4)
    assert _say(capfd, "xa", path, f"--{end}", XID) == ""
    assert _say(capfd, "xa", path) == ""
    assert "no prepared transaction" in _say(capfd, "xa", path, f"--{end}", XID, code=1)
    with PageStore(path) as store:
        assert len(peek(store, "orders")) == (29 if end == "commit" else 30)
        assert len(peek(store, "paid")) == (2 if end == "commit" else 1)
    assert "not an xid" in _say(capfd, "xa", path, f"--{end}", "x", code=2)
    assert "exclude" in _say(capfd, "xa", path, "--commit", XID, "--rollback", XID, code=2)


@pytest.mark.slow
def test_backup_and_shrink(path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert _say(capfd, "backup", path, path.with_name("copy")) == ""
    assert "not empty" in _say(capfd, "backup", path, path.with_name("copy"), code=1)
    with PageStore(path.with_name("copy")) as store:
        wanted = drain(store, "orders")
    before = (path / "page.db").stat().st_size
    assert "pages left of" in _say(capfd, "shrink", path)
    assert (path / "page.db").stat().st_size < before
    with PageStore(path) as store:
        assert drain(store, "orders") == wanted
        for name in ("backup", "shrink"):
            to = [path.with_name("other")] if name == "backup" else []
            assert "belongs to" in _say(capfd, name, path, *to, code=4)


@pytest.mark.parametrize("name", command.commands)
def test_a_missing_folder_cannot_be_opened(name: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    more = {"print": ["queue"], "backup": [tmp_path / "to"]}.get(name, [])
    assert "none" in _say(capfd, name, tmp_path / "none", *more, code=3)
    (tmp_path / "empty").mkdir()
    assert "is not a page store: it has no file transaction.log" in _say(capfd, name, tmp_path / "empty", *more, code=3)
    assert list((tmp_path / "empty").iterdir()) == []
