"""`binlog append`."""

from __future__ import annotations

import fcntl
import json
import os
import resource
import signal
import subprocess
from pathlib import Path

import pytest

import binlog
from binlog.cli.log import append
from binlog.cli.main import main
from tests.unit.cli.run_command import COMMAND, ENVIRONMENT, ended, fill, read_lines, records, run, started


@pytest.mark.slow
def test_each_line_is_a_record_and_the_summary_goes_to_standard_error(log: Path) -> None:
    done = run("append", log, data=b"one\n\n\xff\x00\r\nlast without a newline")
    assert (done.returncode, done.stdout) == (0, b"")
    assert done.stderr == b"binlog: appended 4 records, 1:256 to 1:274\n"
    assert records(log) == [b"one", b"", b"\xff\x00\r", b"last without a newline"]


@pytest.mark.slow
def test_empty_input_creates_an_empty_log(log: Path) -> None:
    assert run("append", log).stderr == b"binlog: appended 0 records\n"
    assert records(log) == []


@pytest.mark.slow
def test_a_file_is_appended_and_quiet_prints_no_summary(log: Path, tmp_path: Path) -> None:
    (tmp_path / "input").write_bytes(b"a\nb\n")
    done = run("append", "--quiet", log, tmp_path / "input")
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")
    assert records(log) == [b"a", b"b"]


@pytest.mark.slow
def test_a_missing_file_exits_with_3_and_creates_no_log(log: Path, tmp_path: Path) -> None:
    done = run("append", log, tmp_path / "none")
    assert done.returncode == 3
    assert done.stderr == f"binlog: {tmp_path}/none: No such file or directory\n".encode()
    assert not log.exists()


@pytest.mark.slow
def test_a_directory_that_cannot_be_created_exits_with_3(tmp_path: Path) -> None:
    done = run("append", tmp_path / "none" / "log", data=b"x\n")
    assert done.returncode == 3
    assert done.stderr.count(b"\n") == 1


@pytest.mark.parametrize("batch", [1, 1000])
@pytest.mark.slow
def test_a_line_is_acknowledged_while_the_input_pauses(log: Path, batch: int) -> None:
    with started("append", "--json", "--batch", batch, log) as process:
        assert process.stdin is not None
        process.stdin.write(b"one\ntwo\nbegun")
        seen = [json.loads(line) for line in read_lines(process.stdout, 2)]
        assert seen == [
            {"ref": "1:256", "number": 1, "offset": 256},
            {"ref": "1:263", "number": 1, "offset": 263},
        ]
        assert records(log) == [b"one", b"two"]
        process.stdin.write(b" and ended\n")
        read_lines(process.stdout, 1)
        assert records(log)[2:] == [b"begun and ended"]
        process.stdin.close()
        assert ended(process) == (0, b"")


@pytest.mark.slow
def test_ctrl_c_keeps_the_acknowledged_records(log: Path) -> None:
    with started("append", "--json", log) as process:
        assert process.stdin is not None
        process.stdin.write(b"one\ntwo\n")
        read_lines(process.stdout, 2)
        process.send_signal(signal.SIGINT)
        assert ended(process) == (-signal.SIGINT, b"")
    assert records(log) == [b"one", b"two"]


@pytest.mark.slow
def test_it_stops_quietly_when_its_output_is_closed(log: Path) -> None:
    with started("append", "--json", log) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(b"one\n")
        read_lines(process.stdout, 1)
        process.stdout.close()
        process.stdin.write(b"two\n")
        assert ended(process) == (-signal.SIGPIPE, b"")


@pytest.mark.slow
def test_a_locked_log_exits_with_4_and_names_the_holder(log: Path) -> None:
    fill(log, [b"x"])
    with open(log / "00000001.dat", "rb+") as file:
        fcntl.lockf(file, fcntl.LOCK_EX)
        done = run("append", "--timeout", "0.01", log, data=b"y\n")
    assert done.returncode == 4
    assert done.stderr.count(b"\n") == 1
    assert f"process {os.getpid()}".encode() in done.stderr


@pytest.mark.slow
def test_a_full_disk_exits_with_1_and_counts_the_appended_records(log: Path) -> None:
    fill(log, [b"x"])
    size = (log / "00000001.dat").stat().st_size
    done = run(
        *("append", "--batch", "1", log),
        data=b"fits\n" + bytes(2 * size) + b"\n",
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (size, size)),
    )
    assert done.returncode == 1
    assert done.stderr.endswith(b"; appended 1 record, 1:261\n")
    assert records(log) == [b"x", b"fits"]


def test_a_line_over_the_limit_exits_with_1_after_the_earlier_records(
    log: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(append, "_RECORD_BYTES_MAX", 10)
    (tmp_path / "input").write_bytes(b"0123456789\n01234567890\n")
    monkeypatch.setattr("binlog.cli.records.READ_BYTES", 8)
    assert main(["append", str(log), str(tmp_path / "input")]) == 1
    assert capfd.readouterr().err == "binlog: line 2 is longer than 10 bytes; appended 1 record, 1:256\n"
    assert records(log) == [b"0123456789"]


@pytest.mark.slow
def test_with_standard_output_closed_nothing_is_written_into_the_log(log: Path) -> None:
    done = subprocess.run(
        ["/bin/sh", "-c", 'exec "$@" >&-', "sh", *COMMAND, "append", "--json", "--batch", "1", str(log)],
        input=b"one\ntwo\n",
        stderr=subprocess.PIPE,
        env=ENVIRONMENT,
        check=False,
    )
    assert done.returncode == 1
    assert done.stderr == b"binlog: standard output: Bad file descriptor\n"
    assert records(log) == [b"one"]


@pytest.mark.slow
def test_closed_standard_input_is_reported(log: Path) -> None:
    done = subprocess.run(
        ["/bin/sh", "-c", 'exec "$@" <&-', "sh", *COMMAND, "append", str(log)],
        stderr=subprocess.PIPE,
        env=ENVIRONMENT,
        check=False,
    )
    assert done.returncode == 1
    assert done.stderr == b"binlog: cannot read the input: Bad file descriptor; appended 0 records\n"
    assert binlog.stat(log).tail == binlog.Ref(1, 256)


@pytest.mark.parametrize("mode", [mode.name.lower() for mode in binlog.Mode])
@pytest.mark.slow
def test_in_each_mode_all_is_durable_when_the_command_ends(log: Path, mode: str) -> None:
    done = run("append", "--mode", mode, log, data=b"one\ntwo\n")
    assert (done.returncode, done.stdout) == (0, b"")
    assert done.stderr.startswith(b"binlog: appended 2 records")
    assert records(log) == [b"one", b"two"]
    file = binlog.stat(log).files[0]
    assert file.durable_end == file.tail


def test_json_is_refused_for_staged_records(log: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert main(["append", "--mode", "stage", "--json", str(log)]) == 2
    assert "--json" in capfd.readouterr().err
    assert not log.exists()


@pytest.mark.slow
def test_limits_close_the_open_file(log: Path) -> None:
    line = b"x" * 95 + b"\n"
    done = run("append", "--batch", 1, "--cutover-bytes", "0.5K", "--cutover-age", "1d", log, data=line * 7)
    assert done.returncode == 0
    assert [file.record_count for file in binlog.stat(log).files] == [3, 3, 1]


@pytest.mark.parametrize("wrong", [["--cutover-bytes", "0"], ["--cutover-age", "0s"], ["--cutover-bytes", "1Q"]])
def test_an_invalid_limit_exits_with_2(log: Path, wrong: list[str]) -> None:
    assert main(["append", *wrong, str(log)]) == 2
    assert not log.exists()
