"""`binlog cat`."""

from __future__ import annotations

import json
import os
import re
import shlex
import signal
from pathlib import Path

import pytest

from binlog import Reader, Writer
from tests.unit.cli.run_command import ended, fill, read_lines, run, started


@pytest.mark.slow
def test_records_come_as_lines_through_all_files(log: Path) -> None:
    fill(log, [b"one", b""], [], [b"\xff\r"])
    done = run("cat", log)
    assert (done.returncode, done.stdout, done.stderr) == (0, b"one\n\n\xff\r\n", b"")


@pytest.mark.slow
def test_json_has_text_or_base64(log: Path) -> None:
    fill(log, ['a "b"\n\u00fc'.encode(), b"\xff"])
    lines = [json.loads(line) for line in run("cat", "--json", log).stdout.splitlines()]
    with Reader(log) as reader:
        times = [entry.time.isoformat(timespec="microseconds").replace("+00:00", "Z") for entry in reader]
    assert lines == [
        {"ref": "1:256", "number": 1, "offset": 256, "sequence": 0, "time": times[0], "text": 'a "b"\nü'},
        {"ref": "1:268", "number": 1, "offset": 268, "sequence": 1, "time": times[1], "base64": "/w=="},
    ]


@pytest.mark.slow
def test_it_starts_at_a_ref_or_keeps_to_a_file(log: Path) -> None:
    refs = fill(log, [b"a", b"b"], [b"c"], [b"d"])
    assert run("cat", "--from", refs[1], log).stdout == b"b\nc\nd\n"
    assert run("cat", "--file", "2", log).stdout == b"c\n"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("options", "code", "message"),
    [
        (["--from", "nonsense"], 2, b"not a ref"),
        (["--from", "1:257"], 2, b"is not the start of a record"),
        (["--from", "7:256"], 2, b"no such file"),
        (["--from", "1:256", "--file", "1"], 2, b"cannot be used"),
        (["--file", "7"], 3, b"no file 7"),
    ],
)
def test_a_wrong_start_has_a_code_and_one_line(log: Path, options: list[str], code: int, message: bytes) -> None:
    fill(log, [b"one"])
    done = run("cat", *options, log)
    assert (done.returncode, done.stdout) == (code, b"")
    assert done.stderr.startswith(b"binlog: ")
    assert done.stderr.count(b"\n") == 1
    assert message in done.stderr


@pytest.mark.slow
def test_a_log_that_cannot_be_opened_exits_with_3(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    fill(tmp_path / "corrupt", [b"one"])
    os.truncate(tmp_path / "corrupt" / "00000001.dat", 100)
    for name in ("missing", "file", "corrupt"):
        done = run("cat", tmp_path / name)
        assert (done.returncode, done.stdout, done.stderr.count(b"\n")) == (3, b"", 1)


@pytest.mark.slow
def test_everything_before_damage_is_printed_and_the_exit_code_is_1(tmp_path: Path) -> None:
    with Writer(tmp_path) as writer:
        refs = [writer.append(record) for record in (b"one", b"two", b"three", b"four")]
    with open(tmp_path / "00000001.dat", "rb+") as file:
        file.seek(refs[2].offset)
        file.write(b"\xff")
    done = run("cat", tmp_path)
    assert (done.returncode, done.stdout) == (1, b"one\ntwo\n")
    assert done.stderr.startswith(b"binlog: ")
    assert b"[index-crc]" in done.stderr
    assert done.stderr.count(b"\n") == 1


@pytest.mark.slow
def test_a_closed_pipe_ends_the_command_with_sigpipe(log: Path) -> None:
    fill(log, [b"x" * 1000] * 5000)
    with started("cat", log) as process:
        assert process.stdout is not None
        read_lines(process.stdout, 1)
        process.stdout.close()
        assert ended(process) == (-signal.SIGPIPE, b"")


@pytest.mark.slow
def test_a_full_output_exits_with_1_and_one_line(log: Path) -> None:
    fill(log, [b"x"])
    with open("/dev/full", "wb") as full, started("cat", log, stdout=full) as process:
        assert ended(process) == (1, b"binlog: standard output: No space left on device\n")


@pytest.mark.slow
def test_a_non_blocking_output_gets_everything(log: Path) -> None:
    fill(log, [b"x" * 1000] * 1000)
    reading, writing = os.pipe()
    os.set_blocking(writing, False)
    with started("cat", log, stdout=writing) as process, open(reading, "rb") as stream:
        os.close(writing)
        assert len(stream.read()) == 1_001_000
        assert ended(process) == (0, b"")


@pytest.mark.slow
def test_a_damaged_range_is_withheld_and_its_error_says_how_to_read_it(tmp_path: Path) -> None:
    log = tmp_path / "a log"
    with Writer(log) as writer:
        writer.append(b"before")
        refs = writer.append_many([b"one", b"two", b"three"])
    with open(log / "00000001.dat", "r+b") as file:
        os.pwrite(file.fileno(), b"T", refs[2].offset + 4)
    done = run("cat", log)
    assert (done.returncode, done.stdout) == (1, b"before\n")
    assert b"the bytes from 266 to 289 (3 records) are not those" in done.stderr
    command = re.search(rb"binlog (cat --no-verify --from 1:266 .*?)(?= \[index-crc\])", done.stderr)
    assert command is not None
    again = run(*shlex.split(command[1].decode()))
    assert (again.returncode, again.stdout, again.stderr) == (0, b"one\ntwo\nThree\n", b"")


@pytest.mark.slow
def test_everything_before_damage_is_printed_from_several_logs(tmp_path: Path) -> None:
    for name in ("a", "b"):
        fill(tmp_path / name, [b"one", b"two"])
    with Writer(tmp_path / "b") as writer:
        ref = writer.append(b"damaged")
    with open(tmp_path / "b" / "00000001.dat", "rb+") as file:
        os.pwrite(file.fileno(), b"?", ref.offset + 4)
    done = run("cat", "a", "b", cwd=tmp_path)
    assert done.returncode == 1
    assert sorted(done.stdout.splitlines()) == [b"a: one", b"a: two", b"b: one", b"b: two"]
