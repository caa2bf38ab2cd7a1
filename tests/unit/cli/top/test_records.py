"""The records on the screen of `binlog top`: pause, scroll, filter, open, export."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import binlog
from binlog.cli.looking.options import parse_filters
from binlog.cli.top.record_feed import RecordFeed
from binlog.cli.top.record_list import save
from tests.support.namespaces import on_a_small_disk
from tests.unit.cli.run_command import fill
from tests.unit.cli.top.running import Running, run_top

pytestmark = pytest.mark.slow


def _event(number: int, level: str = "INFO", severity: int = 9, logger: str = "app.web") -> bytes:
    event = {"severity": severity, "level": level, "logger": logger, "body": f"order <{number}>"}
    return json.dumps({**event, "attributes": {"order": number}}).encode()


def test_space_pauses_the_records_and_counts_new_ones(log: Path) -> None:
    async def work(top: Running) -> None:
        with binlog.Writer(log) as writer:
            writer.append(b"first <1>")
            await top.shows("first <1>", "1 record")
            await top.press("space")
            await top.shows("paused, 0 new")
            writer.append_many([b"later <%d>" % number for number in range(7)])
            screen = await top.shows("paused, 7 new")
            assert "later" not in screen
            await top.press("space")
            screen = await top.shows("later <6>", "8 records")
            assert "paused" not in screen

    fill(log, [])
    run_top(work, log)


def test_keys_scroll_and_end_follows_again(log: Path) -> None:
    fill(log, [b"record <%d>" % number for number in range(500)])

    async def work(top: Running) -> None:
        await top.shows("<499>", "500 records")
        await top.press("home")
        screen = await top.shows("<0>", "scrolled")
        assert "<499>" not in screen
        await top.press("pagedown", "down")
        screen = await top.shows("<40>")
        assert "<0>" not in screen
        fill(log, [b"new <500>"])
        screen = await top.shows("501 records", "<40>")
        assert "<500>" not in screen
        await top.press("end")
        await top.shows("new <500>")

    run_top(work, log)


def test_a_filter_takes_the_words_of_tail(log: Path) -> None:
    levels = (("DEBUG", 5, "app.db"), ("WARNING", 13, "app.web"), ("ERROR", 17, "app.db"))
    fill(log, [_event(number, *levels[number % 3]) for number in range(30)], [b"plain"])

    async def work(top: Running) -> None:
        await top.shows("31 records", "plain", "<28>")
        await top.press("slash")
        await top.paste("--level warning --logger 'app.d*' -v <29>")
        await top.press("enter")
        screen = await top.shows("9 records", "filter --level warning --logger 'app.d*' -v <29>", "<26>")
        assert "<28>" not in screen
        assert "plain" not in screen
        fill(log, [_event(31, *levels[0]), _event(32, *levels[2])])
        screen = await top.shows("10 records", "<32>")
        assert "<31>" not in screen
        await top.press("slash")
        await top.paste("--field order=7")
        await top.press("enter")
        assert "<7>" in await top.shows("1 record ", "--field order=7")
        await top.press("slash")
        await top.paste("--level nonsense")
        await top.press("enter")
        await top.shows("not one of trace, debug")
        await top.press("escape")
        await top.shows("filter --field order=7")
        await top.press("slash")
        await top.paste("")
        await top.press("enter")
        await top.shows("33 records")

    run_top(work, log)


def test_enter_opens_a_record_as_json_text_or_hexadecimal(log: Path) -> None:
    hostile = b"two lines\n[bold]x[/bold] \x1b]0;title\x07\x1b[2J" + "\u202e".encode()
    fill(log, [_event(1), hostile, b"\x00\xff\x1b"])

    async def work(top: Running) -> None:
        await top.shows("3 records")
        await top.press("space", "home", "enter")
        await top.shows("record 1:256  sequence 0", '    "order": 1', '  "body": "order <1>",', f"{len(_event(1))} B")
        await top.press("x")
        await top.shows("00000000  7b 22 73 65")
        await top.press("left", "right")
        screen = await top.shows("sequence 1", "[bold]x[/bold] \\x1b]0;title\\x07\\x1b[2J\\u202e")
        assert "\ntwo lines\n" in screen
        assert not set(screen) & set("\x1b\x07\u202e")
        await top.press("escape", "down", "enter")
        await top.shows("sequence 2", "00000000  00 ff 1b")

    run_top(work, log)


def test_export_writes_what_is_shown_to_a_new_file(log: Path, tmp_path: Path) -> None:
    fill(log, [_event(number, "ERROR", 17) if number % 2 else _event(number) for number in range(20)])
    path = tmp_path / "out.jsonl"

    async def work(top: Running) -> None:
        await top.shows("10 records")
        await top.press("e")
        await top.shows("Write the 10 records")
        await top.paste(str(path))
        await top.press("enter")
        await top.shows("wrote 10 records")
        await top.press("e")
        await top.shows("Write the 10 records")
        await top.paste(str(path))
        await top.press("enter")
        await top.shows("File exists")

    run_top(work, log, words="--level error", size=(160, 40))
    written = [json.loads(line) for line in path.read_text().splitlines()]
    assert [json.loads(each["text"])["attributes"]["order"] for each in written] == list(range(1, 20, 2))
    assert [each["sequence"] for each in written] == list(range(1, 20, 2))


def test_several_logs_are_merged_by_time_and_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)  # a long path would be cut on the screen
    one, two = Path("one"), Path("two")
    fill(one, [b"first"])
    fill(two, [b"second"])
    fill(one, [b"third"])

    async def work(top: Running) -> None:
        screen = await top.shows("3 records", str(one), str(two))
        assert [line.split()[1:] for line in screen.splitlines() if line.endswith(("first", "second", "third"))] == [
            ["one", "first"],
            ["two", "second"],
            ["one", "third"],
        ]

    run_top(work, one, two)


def test_an_export_to_a_full_disk_leaves_no_part_of_a_file(log: Path, tmp_path: Path) -> None:
    fill(log, [b"x" * 1000] * 3000)
    feed = RecordFeed([(str(log), "log")], parse_filters(""))
    disk = tmp_path / "disk"
    disk.mkdir()

    def work() -> None:
        with pytest.raises(OSError, match="No space left"):
            save(str(disk / "records.jsonl"), list(feed.shown.views), named=False)
        assert list(disk.iterdir()) == []

    on_a_small_disk(disk, work, size="1m")
    feed.close()
