"""Records, dead letters, and changes of a group, checked with the group's own API."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

import binlog
from binlog.consumers import ConsumerGroup, read_dead_letters, stat_group
from tests.support.web_pages import GROUP, SECRET, Page, fill_log, running

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("web-groups")]


@pytest.fixture
def page(tmp_path: Path) -> Iterator[Page]:
    """A page of a log that the test may change."""
    fill_log(tmp_path / "log")
    with running(tmp_path / "log") as found:
        yield found


def test_a_dead_letter_is_listed_and_delivered_again(page: Page) -> None:
    found = page.get("/api/dead", log=0, group=GROUP).json
    assert (found["count"], [letter["sequence"] for letter in found["letters"]]) == (2, [2, 1])
    assert {letter["reason"] for letter in found["letters"]} == {"no such card"}
    answer = page.post("/api/retry", {"log": 0, "group": GROUP, "sequences": [1, 39]})
    assert (answer.status, answer.json) == (200, {"count": 1, "impossible": [39]})
    with ConsumerGroup(page.log, GROUP) as group:
        delivered = [item.sequence for item in iter(lambda: group.get(timeout=0), None)]
    assert 1 in delivered
    assert 2 not in delivered


def test_dead_letters_are_removed(page: Page) -> None:
    assert page.post("/api/drop", {"log": 0, "group": GROUP}).json == {"count": 2}
    assert list(read_dead_letters(page.log, GROUP)) == []
    assert page.get("/api/dead", log=0, group=GROUP).json == {"count": 0, "letters": []}


@pytest.mark.parametrize(("to", "sequence"), [("beginning", 0), ("end", 40), ("7", 7), (" 12 ", 12), ("1:256", 0)])
def test_a_group_is_reset(page: Page, to: str, sequence: int) -> None:
    answer = page.post("/api/reset", {"log": 0, "group": GROUP, "to": to})
    assert answer.json == {"sequence": sequence}
    assert stat_group(page.log, GROUP).next == sequence


def test_a_wrong_change_is_refused_with_the_reason_and_changes_nothing(page: Page) -> None:
    before = stat_group(page.log, GROUP)
    good = {"log": 0, "group": GROUP, "sequences": [1], "to": "end"}
    wrong: list[tuple[str, dict[str, object], int, str]] = [
        ("retry", {"sequences": []}, 400, "sequences"),
        ("retry", {"sequences": [True]}, 400, "sequences"),
        ("retry", {"sequences": [-1]}, 400, "sequences"),
        ("retry", {"sequences": "1"}, 400, "sequences"),
        ("retry", {"group": "other"}, 404, "no consumer group"),
        ("retry", {"group": None}, 400, "group"),
        ("drop", {"group": "../.."}, 404, "no consumer group"),
        ("drop", {"group": f"{GROUP}/"}, 404, "no consumer group"),
        ("reset", {"to": "tomorrow"}, 400, "start is a ref"),
        ("reset", {"to": "9:256"}, 400, ""),
        ("reset", {"to": "41"}, 400, "so far"),
        ("reset", {"to": 3}, 400, "a text"),
        ("reset", {"keep_outstanding": 1}, 400, "true or false"),
        ("reset", {"log": 1}, 404, "no such log"),
        ("reset", {"log": True}, 404, "no such log"),
        ("reset", {"log": "0"}, 404, "no such log"),
    ]
    for change, values, status, text in wrong:
        answer = page.post(f"/api/{change}", {**good, **values})
        assert answer.status == status, (change, values, answer)
        assert text in answer.json["error"]
    assert page.ask("POST", "/api/retry", b"[]", content_type="application/json").status == 400
    after = stat_group(page.log, GROUP)
    assert (after.next, after.epoch, after.counters) == (before.next, before.epoch, before.counters)
    assert len(list(read_dead_letters(page.log, GROUP))) == 2


def test_a_record_is_opened_whole(page: Page) -> None:
    with binlog.Writer(page.log) as writer:
        long = writer.append(b"x" * (3 << 20))
        odd = writer.append(b"\xff\x00\xe2\x80\xae two\nlines")
        event = writer.append('{"body":"h\u00e9llo","severity":13,"logger":["a"]}'.encode())
    first = page.get("/api/record", log=0, ref="1:256").json
    assert (first["text"], first["sequence"], first["bytes"]) == (f"{SECRET} first", 0, len(SECRET) + 6)
    found = page.get("/api/record", log=0, ref=long).json
    assert (found["bytes"], len(found["text"]), found["is_cut"]) == (3 << 20, 1 << 20, True)
    assert page.get("/api/record", log=0, ref=odd).json["text"] == "\\xff\0\u202e two\nlines"
    found = page.get("/api/record", log=0, ref=event).json
    assert (json.loads(found["text"])["body"], found["severity"], found["logger"]) == ("h\u00e9llo", 13, '["a"]')


@pytest.mark.parametrize(("ref", "status"), [("1:257", 400), ("1", 400), ("", 400), ("9:256", 404), ("0:0", 400)])
def test_a_wrong_ref_is_refused(page: Page, ref: str, status: int) -> None:
    assert page.get("/api/record", log=0, ref=ref).status in (status, 400)


def test_the_tail_has_no_record_yet(page: Page) -> None:
    assert page.get("/api/record", log=0, ref=binlog.stat(page.log).tail).status == 404
