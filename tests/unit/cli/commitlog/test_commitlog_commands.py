"""`binlog commitlog`: stat, cat, tail, find and check."""

from __future__ import annotations

import base64
import json
import signal
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from binlog.cli.commitlog import StoreCommands
from binlog.cli.main import main
from binlog.commitlog import Message, MessageStore, StoredMessage, check_store
from tests.support.checked_stores import KEY_INDEX, OPTIONS, body, fill, flip, log_file, stored
from tests.unit.cli.run_command import ended, read_lines, run, started

_COUNT = 40


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Path]:
    """A store with messages in two topics of two queues each, checked after the test."""
    path = tmp_path / "store"
    with MessageStore(path, OPTIONS) as made:
        fill(made, _COUNT)
    yield path
    assert check_store(path) == []


def _say(capfd: pytest.CaptureFixture[str], *arguments: object, code: int = 0) -> str:
    """Run a command in this process and return its output."""
    capfd.readouterr()
    assert main(["commitlog", *map(str, arguments)]) == code
    captured = capfd.readouterr()
    assert captured.err.count("\n") == (code != 0)
    return captured.out if code == 0 else captured.err


def _lines(*numbers: int) -> str:
    return "".join(f"{body(number).decode()}\n" for number in numbers)


def _iso(store_ms: int) -> str:
    return datetime.fromtimestamp(store_ms / 1000, UTC).isoformat()


@pytest.mark.parametrize("name", StoreCommands.names)
def test_every_command_has_help(name: str, capfd: pytest.CaptureFixture[str]) -> None:
    message = _say(capfd, name, "--help")
    assert message.startswith(f"Usage: binlog commitlog {name} ")
    assert "DIR" in message


@pytest.mark.slow
def test_cat_prints_all_topics_in_the_order_of_the_log(store: Path) -> None:
    done = run("commitlog", "cat", store)
    assert (done.returncode, done.stdout.decode(), done.stderr) == (0, _lines(*range(_COUNT)), b"")


def test_cat_filters_by_topic_queue_and_tag(store: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert _say(capfd, "cat", "--topic", "b", store) == _lines(*range(1, _COUNT, 2))
    assert _say(capfd, "cat", "--topic", "b", "--queue", 1, store) == _lines(*range(3, _COUNT, 4))
    assert _say(capfd, "cat", "--topic", "b", "--tag", "even", store) == ""
    assert _say(capfd, "cat", "--tag", "even", "--count", 5, store) == _lines(0, 2, 4, 6, 8)
    assert _say(capfd, "cat", "--topic", "a", "--tag", "even", "--count", 2, store) == _lines(0, 2)
    assert _say(capfd, "cat", "--count", 0, store) == ""


def test_cat_starts_at_an_offset_a_queue_offset_or_a_time(store: Path, capfd: pytest.CaptureFixture[str]) -> None:
    messages = stored(store)
    assert _say(capfd, "cat", "--from", messages[30].offset, store) == _lines(*range(30, _COUNT))
    assert _say(capfd, "cat", "--from", messages[30].offset, "--topic", "b", store) == _lines(31, 33, 35, 37, 39)
    assert _say(capfd, "cat", "--from", 8, "--topic", "b", "--queue", 1, store) == _lines(35, 39)
    moment = messages[20].store_ms
    since = [number for number, message in enumerate(messages) if message.store_ms >= moment]
    assert _say(capfd, "cat", "--from", _iso(moment), store) == _lines(*since)
    wanted = [number for number in since if number % 2 == 0]
    assert _say(capfd, "cat", "--from", _iso(moment), "--topic", "a", store) == _lines(*wanted)
    assert _say(capfd, "cat", "--from", "2h ago", store) == _lines(*range(_COUNT))
    for options in ([], ["--topic", "a"], ["--topic", "a", "--queue", "1"]):
        assert _say(capfd, "cat", "--from", "2100-01-01", *options, store) == ""


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["cat", "--queue", "1"], 2, "--queue needs --topic"),
        (["cat", "--from", "nonsense"], 2, "neither an offset nor a time"),
        (["cat", "--from", "99999999999999999999"], 2, "too large"),
        (["cat", "--from", "7"], 2, "is not the start of a message"),
        (["cat", "--from", "999999"], 2, "is not the start of a message"),
        (["cat", "--topic", "none"], 3, "no topic 'none'"),
        (["cat", "--topic", "a", "--queue", "7"], 3, "no queue 7"),
        (["tail", "--topic", "none"], 3, "no topic 'none'"),
        (["tail"], 2, "--topic"),
        (["find", "--topic", "a"], 2, "one of --key, --time, --offset and --id"),
        (["find", "--key", "k", "--offset", "0"], 2, "one of --key, --time, --offset and --id"),
        (["find", "--key", "k"], 2, "need --topic"),
        (["find", "--topic", "a", "--time", "1h"], 2, "need each other"),
        (["find", "--id", "12"], 2, "not a message id"),
        (["find", "--topic", "a", "--key", "none"], 1, "no such message"),
        (["find", "--topic", "a", "--queue", "0", "--time", "2100-01-01"], 1, "no such message"),
        (["find", "--offset", "999999"], 1, "no readable message at 999999"),
        (["find", "--id", "0" * 17 + "f" * 15], 1, "no readable message at"),
    ],
)
def test_wrong_or_missing_arguments_have_a_code_and_one_line(
    store: Path, capfd: pytest.CaptureFixture[str], arguments: list[str], code: int, message: str
) -> None:
    error = _say(capfd, *arguments, store, code=code)
    assert error.startswith("binlog: ")
    assert message in error


def test_a_folder_without_a_store_exits_with_3(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "file").touch()
    (tmp_path / "empty").mkdir()
    for name in ("missing", "file", "empty"):
        for words in (["cat"], ["stat"], ["check"], ["tail", "--topic", "a"], ["find", "--offset", "0"]):
            _say(capfd, *words, tmp_path / name, code=3)


def _object(message: StoredMessage) -> dict[str, Any]:
    return {
        "id": message.id,
        "topic": message.topic,
        "queue_id": message.queue_id,
        "queue_offset": message.queue_offset,
        "offset": message.offset,
        "message_bytes": message.message_bytes,
        "flag": message.flag,
        "system_flag": message.system_flag,
        "born_ms": message.born_ms,
        "born_host": str(message.born_host),
        "store_ms": message.store_ms,
        "store_host": str(message.store_host),
        "reconsume_count": message.reconsume_count,
        "prepared_offset": message.prepared_offset,
        "record_crc": True,
    }


def test_json_has_every_field(store: Path, capfd: pytest.CaptureFixture[str]) -> None:
    with MessageStore(store, OPTIONS) as made:
        made.append(Message("c", "ü\n".encode(), b"n\x01\xff\x02k\x01\xc3\xbc\x02", flag=3))
        made.append(Message("c", b"\xff"))
    text, data = (json.loads(line) for line in _say(capfd, "cat", "--topic", "c", "--json", store).splitlines())
    first, second = stored(store)[-2:]
    assert text == {**_object(first), "properties": {"n": "\udcff", "k": "ü"}, "text": "ü\n"}
    assert data == {**_object(second), "properties": {}, "base64": base64.b64encode(b"\xff").decode()}
    (line,) = _say(capfd, "find", "--topic", "a", "--key", "key-0", "--json", store).splitlines()
    assert json.loads(line)["properties"] == {"KEYS": "key-0 same", "TAGS": "even"}


def test_find_prints_messages_with_a_key_newest_first(store: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert _say(capfd, "find", "--topic", "b", "--key", "key-7", store) == _lines(7)
    assert _say(capfd, "find", "--topic", "b", "--key", "same", "--count", 3, store) == _lines(39, 37, 35)
    (store / "binlog.sidecar").rename(store.parent / "aside")
    slots = KEY_INDEX.slots
    assert _say(capfd, "find", "--topic", "b", "--key", "key-7", "--key-slots", slots, store) == _lines(7)
    assert "is not the size of a key index with 5000000 slots" in _say(
        capfd, "find", "--topic", "b", "--key", "key-7", store, code=1
    )
    (store.parent / "aside").rename(store / "binlog.sidecar")


def test_find_prints_messages_by_offset_id_or_time(store: Path, capfd: pytest.CaptureFixture[str]) -> None:
    message = stored(store)[21]
    assert _say(capfd, "find", "--offset", message.offset, store) == _lines(21)
    assert _say(capfd, "find", "--id", message.id.lower(), store) == _lines(21)
    _say(capfd, "find", "--topic", "a", "--id", message.id, store, code=1)
    other = "0A" + message.id[2:]  # stored on another host
    _say(capfd, "find", "--id", other, store, code=1)
    found = _say(capfd, "find", "--topic", "b", "--queue", 0, "--time", _iso(message.store_ms), store)
    number = int(found.split()[1])
    assert stored(store)[number].store_ms >= message.store_ms
    assert number == 1 or stored(store)[number - 4].store_ms < message.store_ms


def test_tail_prints_the_last_messages_in_log_order(store: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert _say(capfd, "tail", "--topic", "a", store) == _lines(*range(20, 40, 2))
    assert _say(capfd, "tail", "--topic", "a", "-n", 3, store) == _lines(34, 36, 38)
    assert _say(capfd, "tail", "--topic", "a", "--queue", 1, "-n", 2, store) == _lines(34, 38)
    assert _say(capfd, "tail", "--topic", "a", "-n", 0, store) == ""
    assert _say(capfd, "tail", "--topic", "a", "-n", 1000, store) == _lines(*range(0, 40, 2))


@pytest.mark.slow
def test_tail_follows_another_process_in_order_until_ctrl_c(store: Path) -> None:
    """This process appends to existing queues and to new ones."""
    with started("commitlog", "tail", "--topic", "a", "-n", "1", "-f", "--json", store) as process:
        assert read_lines(process.stdout, 1)
        with MessageStore(store, OPTIONS) as made:
            for number in range(300):
                made.append([Message("a", b"%d" % number, queue_id=number % 4), Message("b", b"other")])
            lines = read_lines(process.stdout, 300)
        assert [json.loads(line)["text"] for line in lines] == [str(number) for number in range(300)]
        process.send_signal(signal.SIGINT)
        assert ended(process) == (-signal.SIGINT, b"")


@pytest.mark.slow
def test_tail_waits_for_a_new_topic(store: Path) -> None:
    with started("commitlog", "tail", "--topic", "new", "-f", store) as process, MessageStore(store, OPTIONS) as made:
        made.append(Message("new", b"first"))
        assert read_lines(process.stdout, 1) == [b"first\n"]


@pytest.mark.slow
def test_a_closed_pipe_ends_the_commands_with_sigpipe(store: Path) -> None:
    with started("commitlog", "tail", "--topic", "a", "-f", store) as process:
        assert process.stdout is not None
        read_lines(process.stdout, 1)
        process.stdout.close()
        assert ended(process) == (-signal.SIGPIPE, b"")


@pytest.mark.slow
def test_everything_before_damage_is_printed_and_the_exit_code_is_1(tmp_path: Path) -> None:
    with MessageStore(tmp_path, OPTIONS) as made:
        fill(made, 10)
    path, at = log_file(tmp_path, stored(tmp_path)[7].offset)
    flip(path, at + 60)
    done = run("commitlog", "cat", tmp_path)
    assert (done.returncode, done.stdout.decode()) == (1, _lines(*range(7)))
    assert done.stderr.startswith(f"binlog: {path} at offset {at}: ".encode())
    assert done.stderr.count(b"\n") == 1


def test_check_prints_a_line_for_each_problem(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    with MessageStore(tmp_path, OPTIONS) as made:
        fill(made, 10)
    assert _say(capfd, "check", tmp_path) == "no problems found\n"
    path, at = log_file(tmp_path, stored(tmp_path)[7].offset)
    flip(path, at + 60)
    assert main(["commitlog", "check", str(tmp_path)]) == 1
    assert capfd.readouterr().out.startswith(
        f"{path} at offset {at}: the message is not what was written [record_crc]\n"
    )
    assert main(["commitlog", "check", "--json", str(tmp_path)]) == 1
    out = [json.loads(line) for line in capfd.readouterr().out.splitlines()]
    assert [(each["path"], each["offset"], each["rule"]) for each in out] == [(str(path), at, "record_crc")]


def test_stat_shows_files_queues_and_key_index(store: Path, capfd: pytest.CaptureFixture[str]) -> None:
    messages = stored(store)
    message = _say(capfd, "stat", store).splitlines()
    end = messages[-1].offset + messages[-1].message_bytes
    assert message[0].startswith(f"{store}: commit log 0..{end}, {_COUNT} messages, on disk ")
    assert message[1].startswith("stopped cleanly; synced up to: log 2")
    assert message[2].split() == ["FILE", "SIZE", "ON", "DISK", "FIRST", "STORED"]
    assert message[3].split()[0] == f"{0:020d}"
    (row,) = (line.split() for line in message if line.startswith("b ") and line.split()[1] == "1")
    assert row[:7] == ["b", "1", "10", "0", "10", str(messages[3].offset), str(messages[39].offset)]
    assert sum(line.split()[1] == "19" for line in message if line[:4].isdigit() and "KiB" in line) >= 2


def test_stat_as_json_is_one_object(store: Path, capfd: pytest.CaptureFixture[str]) -> None:
    messages = stored(store)
    out = json.loads(_say(capfd, "stat", "--json", store))
    assert (out["path"], out["owned"], out["clean"], out["message_count"]) == (str(store), False, True, _COUNT)
    assert [(queue["topic"], queue["queue_id"], queue["message_count"]) for queue in out["queues"]] == [
        ("a", 0, 10), ("a", 1, 10), ("b", 0, 10), ("b", 1, 10),
    ]  # fmt: skip
    assert out["queues"][0]["first_store_ms"] == messages[0].store_ms
    assert out["files"][0]["first_store_ms"] == messages[0].store_ms
    assert out["checkpoint"]["log_ms"] == messages[-1].store_ms
    parts = out["files"] + out["queues"] + out["key_index"]
    assert out["disk_bytes"] == sum(part["disk_bytes"] for part in parts)


def test_stat_shows_the_owner_and_whether_shutdown_was_clean(store: Path, capfd: pytest.CaptureFixture[str]) -> None:
    with MessageStore(store, OPTIONS):
        assert _say(capfd, "stat", store).splitlines()[1].startswith("open in process ")
    (store / "abort").touch()
    assert _say(capfd, "stat", store).splitlines()[1].startswith("not stopped cleanly: ")
    (store / "abort").unlink()


def test_a_store_without_messages_is_shown(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    with MessageStore(tmp_path, OPTIONS):
        pass
    assert _say(capfd, "cat", tmp_path) == ""
    assert _say(capfd, "stat", tmp_path).startswith(
        f"{tmp_path}: commit log 0..0, 0 messages, on disk 0 B\nstopped cleanly"
    )
