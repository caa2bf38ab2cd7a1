"""`binlog paging`: stat, print and check."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from binlog import Mode, open_queue
from binlog.cli.main import main
from binlog.cli.paging import command
from binlog.paging import PagingOptions
from tests.support.journals import flip


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """An address with two pages and messages of a transaction, two of them acknowledged."""
    made = tmp_path / "queue"
    with open_queue(made, mode=Mode.FLUSH, options=PagingOptions(page_bytes=1024)) as queue:
        for number in range(8):
            queue.put(b"%d" % number * 150)
        queue.ack(queue.get())
        queue.ack(queue.get())
        with queue.transaction() as transaction:
            transaction.put(b"\xff")
    return made


def _say(capfd: pytest.CaptureFixture[str], *arguments: object, code: int = 0) -> str:
    capfd.readouterr()
    assert main(["paging", *map(str, arguments)]) == code
    captured = capfd.readouterr()
    return captured.out if code == 0 else captured.out + captured.err


@pytest.mark.parametrize("name", command.commands)
def test_every_command_has_help(name: str, capfd: pytest.CaptureFixture[str]) -> None:
    assert _say(capfd, name, "--help").startswith(f"Usage: binlog paging {name} ")


def test_stat_has_a_line_for_each_page(path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    lines = _say(capfd, "stat", path).splitlines()
    assert lines[0] == "queue: 2 pages, 9 messages, 2 acknowledged"
    assert [line.split()[:2] for line in lines[1:]] == [["PAGE", "MESSAGES"], ["1", "5"], ["2", "4"]]
    (found,) = map(json.loads, _say(capfd, "stat", path, "--json").splitlines())
    assert [page["acked_count"] for page in found["pages"]] == [2, 0]
    assert [len(page["deliveries"]) for page in found["pages"]] == [2, 0]


def test_print_has_a_line_for_each_message(path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    found = list(map(json.loads, _say(capfd, "print", path, "--json").splitlines()))
    assert [(each["page"], each["number"]) for each in found] == [(1, n) for n in range(5)] + [(2, n) for n in range(4)]
    assert [each["deliveries"] for each in found] == [1, 1, *[0] * 7]
    assert [each.get("text") for each in found] == [*(f"{n}" * 150 for n in range(8)), None]
    assert [each["tx_id"] == -1 for each in found] == [True] * 8 + [False]
    assert _say(capfd, "print", path, "--count", 2, "--address", "queue").splitlines() == ["0" * 150, "1" * 150]


def test_check_and_stat_report_damage(path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert _say(capfd, "check", path) == "no problems found\n"
    (page,) = path.rglob("000000001.page")
    flip(page, 300)
    assert "000000001.page" in _say(capfd, "check", path, code=1)
    assert "000000001.page" in _say(capfd, "stat", path, code=1)


@pytest.mark.parametrize("name", command.commands)
def test_a_missing_folder_cannot_be_opened(name: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert "none" in _say(capfd, name, tmp_path / "none", code=3)


def test_an_unknown_address_is_reported(path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert "other" in _say(capfd, "print", path, "--address", "other", code=3)
