"""`binlog journal`: stat, print, check, export and import."""

from __future__ import annotations

import base64
import json
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from binlog.cli.journal import command
from binlog.cli.main import main
from binlog.format.journal.file_header import JournalLayout
from binlog.journal import Journal, JournalOptions, RecordState, check_journal, read_records
from tests.support.journals import SMALL, flip
from tests.unit.cli.run_command import run


@pytest.fixture
def path(tmp_path: Path) -> Iterator[Path]:
    """A journal of a few files, checked after the test."""
    made = tmp_path / "journal"
    with Journal(made, SMALL) as journal:
        journal.load()
        for number in range(1, 7):
            journal.append_add(number, 1, b"%d " % number * 300)
        journal.append_update(2, 2, b"more")
        journal.append_delete(3)
        journal.append_delete(1)
        journal.append_add_tx(100, 50, 3, b"\xff")
        journal.prepare(100, b"extra")
        journal.append_add_tx(101, 51, 3, b"in a transaction")
        journal.commit(101)
    yield made
    assert check_journal(made) == []


def _say(capfd: pytest.CaptureFixture[str], *arguments: object, code: int = 0) -> str:
    """Run a command in this process and return its output."""
    capfd.readouterr()
    assert main(["journal", *map(str, arguments)]) == code
    captured = capfd.readouterr()
    return captured.out if code == 0 else captured.out + captured.err


@pytest.mark.parametrize("name", command.commands)
def test_every_command_has_help(name: str, capfd: pytest.CaptureFixture[str]) -> None:
    message = _say(capfd, name, "--help")
    assert message.startswith(f"Usage: binlog journal {name} ")
    assert "DIR" in message
    assert "--prefix" in message


def test_print_has_a_line_for_each_record(path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    lines = _say(capfd, "print", path).splitlines()
    assert lines[0] == f"journal-1.jnl:88 add deleted id=1 type=1 600 B {'1 ' * 30}..."
    assert lines[6:] == [
        "journal-2.jnl:1951 update live id=2 type=2 4 B more",
        "journal-2.jnl:1976 delete done id=3",
        "journal-2.jnl:1996 delete done id=1",
        "journal-2.jnl:2016 add_tx prepared id=50 tx=100 type=3 1 B \\xff",
        "journal-3.jnl:88 prepare prepared tx=100 file:2=1 5 B extra",
        "journal-3.jnl:125 add_tx live id=51 tx=101 type=3 16 B in a transaction",
        "journal-3.jnl:170 commit done tx=101 file:3=1",
    ]


def test_print_filters_by_id_kind_state_and_transaction(path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    def count(*options: object) -> int:
        return len(_say(capfd, "print", *options, path).splitlines())

    assert count("--id", 2) == 2
    assert count("--id", 2, "--id", 3) == 4
    assert count("--kind", "delete") == 2
    assert count("--kind", "add", "--state", "deleted") == 2
    assert count("--tx", 100) == 2
    assert count("--tx", 100, "--id", 50) == 1
    assert count("--count", 3) == 3
    assert count("--id", 77) == 0
    [line] = _say(capfd, "print", "--json", "--tx", 101, "--kind", "add_tx", path).splitlines()
    found = json.loads(line)
    assert (found["text"], found["state"], found["id"], found["transaction"]) == ("in a transaction", "live", 51, 101)
    [line] = _say(capfd, "print", "--json", "--id", 50, path).splitlines()
    assert base64.b64decode(json.loads(line)["base64"]) == b"\xff"


def test_stat_shows_files_and_their_pins(path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    (path / "quarantine").mkdir()
    (path / "quarantine" / "journal-9.jnl.7").write_bytes(b"damaged")
    (path / "journal-80.jnl.tmp").touch()
    head, state, names, *files = _say(capfd, "stat", "--pins", path).splitlines()
    assert head.startswith(f"{path}: layout native, 13 records, 6 live, on disk ")
    assert state == (
        "not open; transactions: 1 prepared, 0 open; unfinished, in use or left by a crash: journal-80.jnl.tmp"
    )
    assert names.split()[:3] == ["FILE", "ID", "SIZE"]
    assert files[0].endswith("  1 record (2)")
    assert files[1].endswith("  4 records (2, 4, 5, ...), 1 transaction (100), deletes for journal-1.jnl")
    assert files[2].endswith("takes appends")
    assert files[-2:] == ["QUARANTINED      SIZE", "journal-9.jnl.7   7 B"]
    (path / "journal-80.jnl.tmp").unlink()


@pytest.mark.slow
def test_stat_shows_the_owner_and_json_is_complete(path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    with Journal(path, SMALL) as journal:
        journal.load()
        assert "open in process " in _say(capfd, "stat", path)
        journal.append_add(60, 1, b"the lock was not given up by looking")
        done = run("journal", "stat", "--json", path)
        found = json.loads(done.stdout)
        assert (found["owned"], found["layout"], found["record_count"]) == (True, "native", 14)
        assert found["live_count"] == 7
        assert [file["file_id"] for file in found["files"]][:3] == [1, 2, 3]


def test_check_reports_problems_and_exits_with_1(path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert _say(capfd, "check", path) == "no problems found\n"
    (path / "quarantine").mkdir()
    (path / "quarantine" / "journal-9.jnl.7").touch()
    message = _say(capfd, "check", path)
    assert message == f"no problems found\n1 file in the quarantine: {path}/quarantine\n"
    shutil.rmtree(path / "quarantine")
    flip(path / "journal-1.jnl", 200)
    message = _say(capfd, "check", path, code=1)
    assert message.startswith(f"{path}/journal-1.jnl at offset 88: ")
    assert message.endswith("[gap]\n")
    assert json.loads(_say(capfd, "check", "--json", path, code=1))["rule"] == "gap"
    assert "1 problem, see 'binlog journal check'" in _say(capfd, "stat", path)
    assert "[gap]" in _say(capfd, "print", "--count", 1, path, code=1)
    assert "[gap]" in _say(capfd, "export", path, code=1)
    flip(path / "journal-1.jnl", 200)


@pytest.mark.slow
@pytest.mark.parametrize("layout", ["native", "jbm"])
def test_export_and_import(path: Path, tmp_path: Path, layout: str) -> None:
    lines = run("journal", "export", path)
    assert (lines.returncode, lines.stderr) == (0, b"")
    new = tmp_path / "new"
    done = run("journal", "import", "--layout", layout, "--file-bytes", 4096, new, data=lines.stdout)
    assert (done.returncode, done.stdout, done.stderr) == (0, b"6 records, 1 prepared transaction; 0 skipped\n", b"")
    there = {RecordState.LIVE, RecordState.UPDATED, RecordState.PREPARED}
    kept = [(record.kind, record.record_id, record.body) for record in read_records(path) if record.state in there]
    assert [
        (record.kind, record.record_id, record.body) for record in read_records(new) if record.state in there
    ] == kept
    assert {file.stat().st_size for file in new.glob("*.jnl")} == {4096}
    again = run("journal", "import", new, data=lines.stdout)
    assert (again.returncode, again.stderr) == (3, f"binlog: {new} is not empty\n".encode())


@pytest.mark.slow
def test_an_import_error_is_one_line(path: Path, tmp_path: Path) -> None:
    lines = run("journal", "export", path).stdout
    for data, options, code, text in [
        (b"no lines\n", [], 3, b"not a line of an export"),
        (lines[:-30], [], 1, b"not a line of an export"),
        (lines, ["--file-bytes", "1024", "--layout", "jbm-2008-07"], 1, b"has no body"),
    ]:
        done = run("journal", "import", *options, tmp_path / "new", data=data)
        assert (done.returncode, done.stderr.count(b"\n")) == (code, 1)
        assert text in done.stderr
    assert not (tmp_path / "new").exists()
    with Journal(tmp_path / "large", JournalOptions(file_bytes=8192)) as journal:
        journal.load()
        journal.append_add(1, 1, bytes(7000))
    lines = run("journal", "export", tmp_path / "large").stdout
    done = run("journal", "import", "--file-bytes", 2048, tmp_path / "new", data=lines)
    assert (done.returncode, b"see --file-bytes" in done.stderr) == (1, True)


def test_other_file_names_and_a_layout_given_by_option(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    options = JournalOptions(prefix="hornetq-data", extension="hq", layout=JournalLayout.JBM, file_bytes=2048)
    with Journal(tmp_path, options) as journal:
        journal.load()
        journal.append_add(1, 1, b"body")
    assert "is no journal" not in _say(capfd, "check", tmp_path, "--prefix", "hornetq-data", "--extension", "hq")
    named = ["--prefix", "hornetq-data", "--extension", "hq"]
    assert "add live id=1" in _say(capfd, "print", tmp_path, *named)
    assert "layout jbm-2008-07" in _say(capfd, "stat", tmp_path, *named, "--layout", "jbm-2008-07")
    assert _say(capfd, "stat", tmp_path, *named, "--layout", "native", code=0).count("problem")


def test_a_folder_without_a_journal_exits_with_3(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "empty").mkdir()
    for name in ("stat", "print", "check", "export"):
        assert "is no journal" in _say(capfd, name, tmp_path / "empty", code=3)
        assert "there is no such directory" in _say(capfd, name, tmp_path / "none", code=3)
