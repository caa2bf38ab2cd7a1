"""The buffer of one browser holds a fixed amount, however slow the browser is."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import binlog
from binlog.web.outbox import BYTES_MAX, ROWS_MAX, Outbox
from binlog.web.shown import Row


def _rows(first: int, count: int, size: int = 10) -> list[Row]:
    return [
        Row(binlog.Ref(1, 256 + number), json.dumps({"number": number, "x": "x" * size}).encode())
        for number in range(first, first + count)
    ]


def _taken(outbox: Outbox, since: binlog.Ref | None = None) -> dict[str, Any]:
    events = outbox._taken(since)
    return {name: json.loads(data) for name, data in events}


def test_what_was_put_is_taken_once() -> None:
    async def use() -> None:
        outbox = Outbox(asyncio.get_running_loop())
        outbox.put_state(0, b'{"log":0,"age":1}')
        outbox.put_state(0, b'{"log":0,"age":2}')
        outbox.put_rows(_rows(0, 2), 3)
        outbox.put_note("the file is damaged")
        events = await outbox.take(30, None)
        assert [name for name, _ in events] == ["state", "note", "rows"]
        assert json.loads(events[0][1])["age"] == 2
        rows = json.loads(events[2][1])
        assert (rows["skipped"], [row["number"] for row in rows["rows"]]) == (3, [0, 1])
        assert await outbox.take(0, None) == []
        outbox.end()
        await outbox.take(30, None)
        assert outbox.is_ended

    asyncio.run(use())


@given(st.lists(st.tuples(st.integers(0, 300), st.integers(0, 5000)), max_size=20))
@pytest.mark.slow
def test_the_newest_rows_are_kept_and_the_others_counted(puts: list[tuple[int, int]]) -> None:
    async def use() -> None:
        outbox = Outbox(asyncio.get_running_loop())
        put = 0
        for count, size in puts:
            outbox.put_rows(_rows(put, count, size), 0)
            put += count
        found = _taken(outbox).get("rows", {"rows": [], "skipped": 0})
        numbers = [row["number"] for row in found["rows"]]
        assert numbers == list(range(put - len(numbers), put))
        assert found["skipped"] == put - len(numbers)
        assert len(numbers) <= ROWS_MAX
        assert sum(len(json.dumps(row)) for row in found["rows"]) <= BYTES_MAX + ROWS_MAX

    asyncio.run(use())


def test_rows_that_the_browser_has_are_left_out() -> None:
    async def use() -> None:
        outbox = Outbox(asyncio.get_running_loop())
        outbox.put_rows(_rows(0, 5), 0)
        assert [row["number"] for row in _taken(outbox, binlog.Ref(1, 259))["rows"]["rows"]] == [3, 4]
        outbox.put_rows(_rows(0, 5), 0)
        assert _taken(outbox, binlog.Ref(2, 256)) == {}

    asyncio.run(use())


def test_a_put_after_the_end_of_the_loop_does_nothing() -> None:
    async def made() -> Outbox:
        return Outbox(asyncio.get_running_loop())

    outbox = asyncio.run(made())
    outbox.put_rows(_rows(0, 1), 0)
    assert outbox.is_ended
