"""Environments that lack something: /proc, a plain file under a log file's name, a writable mount, threads."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import binlog
from binlog import Background, Mode, Reader, Writer
from binlog.errors import AccessError
from binlog.storage.boot import whole_boot_id
from tests.support.namespaces import make_read_only, on_a_small_disk

_NEVER = Background(flush_seconds=600, sync_seconds=600)


def test_a_log_is_read_without_proc_and_written_only_with_it(log: Path) -> None:
    with Writer(log, mode=Mode.FLUSH, background=_NEVER) as writer:
        writer.append(b"synced", mode=Mode.SYNC)
        writer.append(b"flushed")

        def work() -> None:
            whole_boot_id.cache_clear()
            assert [entry.data for entry in Reader(log)] == [b"synced", b"flushed"]
            assert binlog.check(log) == []
            assert binlog.stat(log).files[0].tail == 256 + 10 + 11
            with pytest.raises(AccessError, match="mount -t proc"):
                Writer(log)

        on_a_small_disk(Path("/proc"), work)


def test_a_symbolic_link_under_a_log_files_name_is_reported_as_such(tmp_path: Path) -> None:
    log = tmp_path / "log"
    with Writer(log) as writer:
        for record in (b"1", b"2"):
            writer.append(record)
            writer.cutover()
    linked = log / "00000002.dat"
    linked.rename(tmp_path / "elsewhere")
    linked.symlink_to(tmp_path / "elsewhere")
    text = f"{linked} is a symbolic link.*put the file itself there"
    reader = Reader(log)
    assert next(reader).data == b"1"
    with pytest.raises(AccessError, match=text):
        next(reader)
    with pytest.raises(AccessError, match=text):
        binlog.stat(log)
    assert [str(linked) in str(problem) for problem in binlog.check(log)] == [True]
    linked.unlink()
    (tmp_path / "elsewhere").rename(linked)
    assert [entry.data for entry in Reader(log)] == [b"1", b"2"]


def test_a_dry_run_of_repair_reports_on_a_read_only_mount(tmp_path: Path) -> None:
    def work() -> None:
        log = tmp_path / "log"
        with Writer(log, prepare_bytes=4096) as writer:
            writer.append(b"1" * 100)
            writer.append(b"2" * 100)
            writer.cutover()
        with (log / "00000001.dat").open("r+b") as file:
            file.seek(300)
            file.write(b"x")
        make_read_only(tmp_path)
        before = sorted(log.iterdir())
        assert [done.action for done in binlog.repair(log, dry_run=True)] == ["quarantined", "index"]
        assert [problem.rule for problem in binlog.check(log)] == ["index-crc"]
        assert sorted(log.iterdir()) == before
        with pytest.raises(AccessError, match="Read-only"):
            binlog.repair(log)

    on_a_small_disk(tmp_path, work, size="8m")


_IN_A_SUBINTERPRETER = """
import sys
try:
    import _interpreters as interpreters
except ImportError:
    import _xxsubinterpreters as interpreters
try:
    one = interpreters.create("legacy")
except TypeError:
    one = interpreters.create(isolated=False)
interpreters.run_string(one, f'''
import sys
sys.path[:] = {sys.path!r}
import binlog
from binlog.errors import StateError
writer = binlog.Writer({sys.argv[1]!r})
writer.append(b"synced")
for mode in (binlog.Mode.FLUSH, binlog.Mode.STAGE):
    try:
        writer.append(b"left to a thread", mode=mode)
    except StateError:
        assert sys.version_info < (3, 12)
''')
interpreters.destroy(one)
"""


@pytest.mark.slow
def test_a_writer_left_open_in_a_subinterpreter_does_not_abort_the_process(log: Path) -> None:
    command = [sys.executable, "-c", _IN_A_SUBINTERPRETER, log]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert next(Reader(log)).data == b"synced"
