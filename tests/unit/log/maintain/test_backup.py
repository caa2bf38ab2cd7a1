"""A backup is of one moment: complete, checked, and a log to append to, whatever happens meanwhile."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import pytest

import binlog
from binlog import Batch, Mode, Reader, Ref, Writer
from binlog.errors import AccessError, NotFoundError
from binlog.log.maintain import backup as backup_module
from tests.interop import jpos_peer
from tests.support.children import Child
from tests.support.external_files import external_files
from tests.support.logs import job, jobs_by_writer, jpos_file, read_all


def _named(path: Path) -> list[str]:
    return sorted(each.name for each in path.iterdir())


def test_a_backup_has_everything_that_the_log_has(log: Path, tmp_path: Path) -> None:
    with Writer(log) as writer:
        writer.append_many([b"%d" % number for number in range(1000)])
        writer.append_idempotent([Batch.from_records([b"turn"])], producer="s", sequence=4)
        writer.cutover()
        writer.append(b"staged", mode=Mode.STAGE)
        made = binlog.backup(log, tmp_path / "copy")
        assert (made.path, made.first_number, made.tail) == (str(tmp_path / "copy"), 1, Ref(2, 266))
        before = read_all(log)
        writer.append(b"later")
    copy = tmp_path / "copy"
    assert read_all(copy) == before == [*(b"%d" % number for number in range(1000)), b"turn", b"staged"]
    assert _named(copy) == _named(log)
    assert binlog.check(copy) == []
    assert (copy / "00000001.idx").read_bytes() == (log / "00000001.idx").read_bytes()
    assert (copy.stat().st_mode, (copy / "00000001.dat").stat().st_mode) == (
        log.stat().st_mode,
        (log / "00000001.dat").stat().st_mode,
    )
    with Writer(copy) as writer:
        assert writer.append_idempotent([Batch.from_records([b"turn"])], producer="s", sequence=4) is None
        assert writer.append(b"its own") == Ref(2, 266)
    assert read_all(log)[-1] == b"later"
    assert binlog.check(copy) == []


def _append(log: Path, writer: int, mode: Mode) -> None:
    sequence = 0
    with Writer(log, mode=mode) as opened:
        while not (log / "stop").exists():
            opened.append(job(writer, sequence))
            sequence += 1
            if writer == 0 and sequence % 20 == 0:
                opened.cutover()
            if writer == 1 and sequence % 50 == 0:
                records = [job(writer, number) for number in range(sequence, sequence + 4)]
                opened.ingest(external_files(log, records[:2], records[2:]))
                sequence += 4


def _append_as_jpos(log: Path) -> None:
    opened = jpos_peer.Writer(log)
    sequence = 0
    while not (log / "stop").exists():
        opened.append(job(9, sequence))
        sequence += 1
    opened.close()


@pytest.mark.slow
@pytest.mark.parametrize("beside_jpos", [False, True], ids=["ours", "beside jpos"])
def test_a_backup_beside_writers_of_every_mode_that_cut_over_and_ingest(tmp_path: Path, beside_jpos: bool) -> None:
    log = tmp_path / "busy"
    with Writer(log) as writer:
        (log / "aside").mkdir()
        children = [Child(_append, log, number, mode) for number, mode in enumerate(Mode)]
        if beside_jpos:
            children.append(Child(_append_as_jpos, log))
        try:
            for turn in range(6):
                marks = [job(8, sequence) for sequence in range(2 * turn, 2 * turn + 2)]
                writer.append(marks[0])
                writer.append(marks[1], mode=Mode.STAGE)
                copy = tmp_path / f"copy-{turn}"
                made = binlog.backup(log, copy)
                assert {problem.rule for problem in binlog.check(copy)} <= ({"late"} if beside_jpos else set())
                found = jobs_by_writer(read_all(copy))
                assert found.pop(8) == list(range(2 * turn + 2))
                for sequences in found.values():
                    assert sorted(sequences) == list(range(len(sequences)))
                with Reader(copy) as reader:
                    assert [entry.ref for entry in reader][-1].number <= made.tail.number
                with Writer(copy) as own:
                    own.append(b"its own")
                assert {problem.rule for problem in binlog.check(copy)} <= ({"late"} if beside_jpos else set())
        finally:
            (log / "stop").touch()
            for child in children:
                child.join()


def test_a_backup_during_retention_and_archiving(log: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The copy then begins later, and has the rest as it is."""
    with Writer(log) as writer:
        for number in range(6):
            writer.append(b"%d" % number * 200)
            writer.cutover()
    copy_closed = backup_module._copy_closed

    def copying(directory: object, number: int, copy: object) -> int:
        if number == 5:
            binlog.archive(log)
            binlog.prune(log, before=Ref(3, 256))
        return copy_closed(directory, number, copy)  # type: ignore[arg-type]

    monkeypatch.setattr(backup_module, "_copy_closed", copying)
    assert binlog.backup(log, tmp_path / "copy").first_number == 3
    assert read_all(tmp_path / "copy") == [b"%d" % number * 200 for number in range(2, 6)]
    assert binlog.check(tmp_path / "copy") == []


def test_a_backup_of_a_foreign_file(log: Path, tmp_path: Path) -> None:
    log.mkdir()
    jpos_file(log, [b"one", b"two"])
    binlog.backup(log, tmp_path / "copy")
    assert read_all(tmp_path / "copy") == [b"one", b"two"]
    theirs = jpos_peer.Writer(tmp_path / "copy")
    theirs.append(b"three")
    theirs.close()
    assert read_all(tmp_path / "copy") == [b"one", b"two", b"three"]
    assert binlog.check(tmp_path / "copy") == []


def test_an_existing_directory_is_not_replaced_and_a_failure_leaves_nothing(
    log: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(NotFoundError):
        binlog.backup(log, tmp_path / "copy")
    with Writer(log) as writer:
        writer.append(b"one")
        writer.cutover()
    taken = tmp_path / "taken"
    taken.mkdir()
    (taken / "something").touch()
    with pytest.raises(AccessError, match="already exists, and is not empty"):
        binlog.backup(log, taken)
    assert os.listdir(taken) == ["something"]
    (tmp_path / "empty").mkdir()
    binlog.backup(log, tmp_path / "empty")
    assert read_all(tmp_path / "empty") == [b"one"]
    monkeypatch.setattr(backup_module, "_copy_closed", lambda *arguments: 1 // 0)
    with pytest.raises(ZeroDivisionError):
        binlog.backup(log, tmp_path / "failed")
    assert not [name for name in os.listdir(tmp_path) if name.startswith("failed")]


def test_a_backup_of_a_backup_is_the_same(log: Path, tmp_path: Path) -> None:
    with Writer(log) as writer:
        writer.append(b"one")
    binlog.backup(log, tmp_path / "first")
    binlog.backup(tmp_path / "first", tmp_path / "second")
    shutil.rmtree(tmp_path / "first")
    assert read_all(tmp_path / "second") == [b"one"]


def test_the_command(log: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    from binlog.cli.main import main

    with Writer(log) as writer:
        writer.append(b"one")
        writer.cutover()
    assert main(["backup", str(log), str(tmp_path / "copy")]) == 0
    assert capfd.readouterr().out == "copied 519 B, file 1 to 2:256\n"
    assert main(["backup", "--json", str(log), str(tmp_path / "again")]) == 0
    told = json.loads(capfd.readouterr().out)
    assert told == {"path": str(tmp_path / "again"), "first_number": 1, "tail": "2:256", "bytes": 519}
    assert main(["backup", str(log), str(tmp_path / "again")]) != 0
    assert "already exists" in capfd.readouterr().err
