"""`binlog tail`."""

from __future__ import annotations

import json
import os
import select
import signal
from pathlib import Path

import pytest

import binlog
from binlog import Writer
from binlog.cli.main import main
from tests.unit.cli.run_command import ended, fill, read_lines, run, started, wait_for


def _tail(capfd: pytest.CaptureFixture[str], *arguments: object) -> list[str]:
    """Run `binlog tail` in this process and return its lines."""
    capfd.readouterr()
    assert main(["tail", *map(str, arguments)]) == 0
    return capfd.readouterr().out.splitlines()


def test_the_last_records_may_be_in_several_files(log: Path, capfd: pytest.CaptureFixture[str]) -> None:
    fill(log, [b"%d" % number for number in range(20)], [b"a", b"b"], [], [b"c"])
    assert _tail(capfd, log) == ["13", "14", "15", "16", "17", "18", "19", "a", "b", "c"]
    assert _tail(capfd, "-n", 2, log) == ["b", "c"]
    assert _tail(capfd, "-n", 0, log) == []
    assert len(_tail(capfd, "-n", 1000, log)) == 23


@pytest.mark.slow
def test_grep_matches_bytes_and_n_counts_matches(log: Path, capfd: pytest.CaptureFixture[str]) -> None:
    fill(log, [b"error 1", b"fine"], [b"error 2", b"fine", b"ERROR \xff", b"fine"])
    assert _tail(capfd, "-n", 2, "--grep", "^error", log) == ["error 1", "error 2"]
    (line,) = _tail(capfd, "--from", "2:256", "--grep", "(?i)error", "--json", log)[1:]
    assert line.startswith('{"ref":"2:275","number":2,"offset":275,"sequence":4,"time":"20')
    assert line.endswith('Z","base64":"RVJST1Ig/w=="}')
    assert run("tail", "--grep", b"\xff".decode("utf-8", "surrogateescape"), log).stdout == b"ERROR \xff\n"


def test_from_takes_a_ref_the_beginning_and_the_end(log: Path, capfd: pytest.CaptureFixture[str]) -> None:
    refs = fill(log, [b"%d" % number for number in range(15)], [b"x"])
    assert len(_tail(capfd, "--from", "beginning", log)) == 16
    assert _tail(capfd, "--from", refs[14], log) == ["14", "x"]
    assert _tail(capfd, "--from", "end", log) == []


@pytest.mark.parametrize(
    ("options", "code", "message"),
    [
        (["-n", "1", "--from", "end"], 2, "use only one of"),
        (["-n", "-1"], 2, "-1"),
        (["--grep", "("], 2, "not a regular expression"),
        (["--position", "junk"], 2, "not a ref"),
        (["--position", "folder"], 3, "folder"),
    ],
)
def test_wrong_options_exit_with_their_code(
    log: Path,
    options: list[str],
    code: int,
    message: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    fill(log, [b"one"])
    monkeypatch.chdir(tmp_path)
    Path("junk").write_text("nonsense\n")
    Path("folder").mkdir()
    assert main(["tail", *options, str(log)]) == code
    error = capfd.readouterr().err
    assert error.count("\n") == 1
    assert message in error


def test_damage_exits_with_1_after_the_earlier_records(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    with Writer(tmp_path) as writer:
        refs = [writer.append(record) for record in (b"one", b"two", b"three", b"four")]
    with open(tmp_path / "00000001.dat", "rb+") as file:
        file.seek(refs[3].offset)
        file.write(b"\xff")
    assert main(["tail", "-n", "2", str(tmp_path)]) == 1
    captured = capfd.readouterr()
    assert captured.out == "two\nthree\n"
    assert captured.err.startswith("binlog: ")
    assert captured.err.count("\n") == 1


@pytest.mark.slow
def test_it_follows_appends_and_a_cutover_by_other_processes_until_ctrl_c(log: Path) -> None:
    fill(log, [b"one", b"two"])
    with started("tail", "-n", "1", "-f", "--json", log) as process:
        (first,) = read_lines(process.stdout, 1)
        assert json.loads(first)["text"] == "two"
        assert run("append", log, data=b"three\n").returncode == 0
        assert run("cutover", log).returncode == 0
        assert run("append", log, data=b"four\n").returncode == 0
        seen = [json.loads(line) for line in read_lines(process.stdout, 2)]
        assert [(entry["number"], entry["text"]) for entry in seen] == [(1, "three"), (2, "four")]
        process.send_signal(signal.SIGINT)
        assert ended(process) == (-signal.SIGINT, b"")


@pytest.mark.parametrize("options", [["--from", "end"], ["-n", "0"]])
@pytest.mark.slow
def test_following_an_empty_directory_prints_the_first_record(log: Path, options: list[str]) -> None:
    log.mkdir()
    # The position file exists once the command waits.
    position = log.parent / "position"
    with started("tail", "-f", *options, "--position", position, log) as process:
        wait_for(position.exists)
        fill(log, [b"first"])
        assert read_lines(process.stdout, 1) == [b"first\n"]


@pytest.mark.slow
def test_it_ends_when_its_output_is_closed_even_if_no_record_arrives(log: Path) -> None:
    fill(log, [b"one"])
    with started("tail", "-f", log) as process:
        assert process.stdout is not None
        read_lines(process.stdout, 1)
        process.stdout.close()
        assert ended(process) == (-signal.SIGPIPE, b"")


def test_a_later_run_resumes_at_the_position_file(log: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    fill(log, [b"one", b"two"])
    position = tmp_path / "worker.position"
    assert _tail(capfd, "-n", 1, "--position", position, log) == ["two"]
    assert position.read_text() == "1:270\n"
    assert _tail(capfd, "--from", "beginning", "--position", position, log) == []
    with binlog.Writer(log) as writer:
        writer.append(b"three")
        writer.cutover()
        writer.append(b"four")
    assert _tail(capfd, "--grep", "four", "--position", position, log) == ["four"]
    assert position.read_text() == "2:264\n"
    assert sorted(os.listdir(tmp_path)) == ["log", "worker.position"]


@pytest.mark.slow
def test_a_position_is_updated_while_following(log: Path, tmp_path: Path) -> None:
    fill(log, [b"one"])
    position = tmp_path / "worker.position"
    with started("tail", "-f", "--position", position, log) as process:
        read_lines(process.stdout, 1)
        with binlog.Writer(log) as writer:
            ref = writer.append(b"two")
        read_lines(process.stdout, 1)
        with binlog.Reader(log, ref) as reader:
            next(reader)
            after = reader.next_ref
        wait_for(lambda: position.exists() and position.read_text() == f"{after}\n")
        process.send_signal(signal.SIGINT)
        assert ended(process) == (-signal.SIGINT, b"")
    assert sorted(os.listdir(tmp_path)) == ["log", "worker.position"]


@pytest.mark.slow
def test_a_position_is_not_moved_past_unprinted_records(log: Path, tmp_path: Path) -> None:
    fill(log, [b"one"])
    position = tmp_path / "worker.position"
    with (
        open("/dev/full", "wb") as full,
        started("tail", "--from", "beginning", "--position", position, log, stdout=full) as process,
    ):
        assert ended(process) == (1, b"binlog: standard output: No space left on device\n")
    assert not position.exists()


def test_a_position_that_cannot_be_stored_exits_with_1(
    log: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    fill(log, [b"one"])
    assert main(["tail", "--position", str(tmp_path / "none" / "position"), str(log)]) == 1
    captured = capfd.readouterr()
    assert captured.out == "one\n"
    assert "cannot store the position" in captured.err


def test_a_pruned_position_is_reported_with_the_option_that_continues(
    log: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    fill(log, [b"1", b"2"], [b"3"], [b"4"], [b"5"])
    position = log.parent / "position"
    position.write_text("1:261\n")
    binlog.prune(log, keep_bytes=0, before=binlog.Ref(3, 0))
    for more in ([], ["--from", "beginning"]):
        assert main(["tail", *more, "--position", str(position), str(log)]) == 3
        assert "use '--if-pruned oldest' to continue with the oldest record" in capfd.readouterr().err
        assert position.read_text() == "1:261\n"
    resume = ["tail", "--if-pruned", "oldest", "--position", str(position), str(log)]
    assert main(resume) == 0
    message = capfd.readouterr()
    assert message.out == "4\n5\n"
    missed = "skipped the records from 1:261 up to 3:256: retention removed files 1 to 2"
    assert message.err == f"binlog: {missed}\n"
    assert position.read_text() == f"{binlog.stat(log).tail}\n"
    assert main(resume) == 0
    assert capfd.readouterr() == ("", "")


def test_a_position_of_another_log_is_reported_with_advice(log: Path, capfd: pytest.CaptureFixture[str]) -> None:
    fill(log, [b"1"])
    position = log.parent / "position"
    position.write_text("1:300\n")
    assert main(["tail", "--position", str(position), str(log)]) == 2
    assert f"the position is not of this log: remove {position} to start over" in capfd.readouterr().err


@pytest.mark.slow
@pytest.mark.parametrize("option", ["fail", "oldest"])
def test_a_follower_overtaken_by_retention(log: Path, option: str) -> None:
    fill(log, [b"x" * 1000] * 300, [b"2"])
    with started("tail", "-f", "--from", "beginning", "--if-pruned", option, log) as process:
        read_lines(process.stdout, 1)
        # The command is blocked, because the pipe is full.
        with binlog.Writer(log) as writer:
            for number in (3, 4):
                writer.cutover()
                writer.append(b"%d" % number)
        binlog.prune(log, before=binlog.Ref(4, 0))
        if option == "oldest":
            while read_lines(process.stdout, 1) != [b"4\n"]:
                pass
            process.send_signal(signal.SIGINT)
            code, error = ended(process)
            assert code == -signal.SIGINT
            assert b"skipped the records from " in error
        else:
            assert process.stdout is not None
            assert process.stdout.readall()
            code, error = ended(process)
            assert (code, b"'--if-pruned oldest' to continue" in error) == (1, True)


@pytest.mark.slow
def test_a_follower_continues_in_a_directory_that_was_replaced(tmp_path: Path) -> None:
    fill(tmp_path / "old", [b"earlier"])
    fill(tmp_path / "new", [b"first"])
    log = tmp_path / "log"
    log.symlink_to("old")
    with started("tail", "-f", "--from", "beginning", "--if-pruned", "oldest", log) as process:
        read_lines(process.stdout, 1)
        (tmp_path / "next").symlink_to("new")
        (tmp_path / "next").rename(log)
        assert read_lines(process.stdout, 1) == [b"first\n"]
        process.send_signal(signal.SIGINT)
        code, error = ended(process)
    assert code == -signal.SIGINT
    assert b"moved or replaced" in error
    assert error.endswith(b"; continuing with the oldest record there, 1:256\n")


@pytest.mark.slow
def test_it_waits_for_a_directory_only_with_retry(log: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert main(["tail", "-f", str(log)]) == 3
    assert capfd.readouterr().err == f"binlog: {log}: there is no such directory\n"
    with started("tail", "-F", "--from", "end", log) as process:
        # A writer in this process creates it at any moment while the command starts.
        fill(log, [b"first"])
        with binlog.Writer(log) as writer:
            while not select.select([process.stdout], [], [], 0.05)[0]:
                writer.append(b"more")
        assert read_lines(process.stdout, 1)[0] in (b"first\n", b"more\n")


@pytest.mark.slow
@pytest.mark.parametrize("options", [["-n", "3"], ["--from", "1:256"], ["--position", "P", "--from", "beginning"]])
def test_damaged_records_are_printed_without_verification(tmp_path: Path, options: list[str]) -> None:
    log = tmp_path / "log"
    refs = fill(log, [b"one", b"two", b"three"])
    with open(log / "00000001.dat", "r+b") as file:
        os.pwrite(file.fileno(), b"T", refs[1].offset + 4)
    given = [str(tmp_path / each) if each == "P" else each for each in options]
    assert run("tail", *given, log).returncode == 1
    (tmp_path / "P").unlink(missing_ok=True)
    done = run("tail", "--no-verify", *given, log)
    assert (done.returncode, done.stdout, done.stderr) == (0, b"one\nTwo\nthree\n", b"")
