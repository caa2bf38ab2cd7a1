"""`binlog doctor` on real file systems: the disk, memory, a full and a read-only one; and on logs in several states."""

from __future__ import annotations

import json
import os
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import binlog
from binlog.cli.main import main
from binlog.doctor import Examination, Finding, Verdict, examine
from binlog.doctor.file_system import sync_finding
from binlog.doctor.machine import _EXTRAS, _machine_of, _packages
from binlog.doctor.shared_memory import _woken
from binlog.errors import NotFoundError
from binlog.format.log_header import Flag, parse_log_header
from binlog.storage.directory import _REMOTE, Directory
from binlog.storage.native import lib
from tests.support.checkout import ROOT
from tests.support.logs import jpos_file
from tests.support.namespaces import container, make_read_only, on_a_small_disk
from tests.support.users import as_user, folder_of_user, needs_root
from tests.unit.cli.run_command import ENVIRONMENT, ended, run, started

pytestmark = pytest.mark.slow


def of(examination: Examination, subject: str) -> Finding:
    [found] = [each for each in examination.findings if each.subject == subject]
    return found


def refused(examination: Examination) -> list[str]:
    return [each.subject for each in examination.findings if each.verdict is Verdict.REFUSED]


@pytest.fixture
def in_memory() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="binlog-test-doctor-", dir="/dev/shm") as path:
        yield Path(path)


def test_nothing_is_refused_on_a_disk_and_nothing_is_left_there(tmp_path: Path) -> None:
    examination = examine(tmp_path)
    assert refused(examination) == []
    assert not examination.is_refused
    assert {each.subject for each in examination.findings} >= {
        "kernel", "clock source", "open files", "file size", "container", "Python", "compiled modules", "file system",
        "free space", "fdatasync", "locks", "link", "O_DIRECT", "hole punching", "time of a sync", "/dev/shm",
        "waking a process", "log",
    }  # fmt: skip
    assert of(examination, "waking a process").value == "works, by a futex in the header of a file"
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("is_wanted", [Path.is_dir, Path.is_file], ids=["operations", "waking"])
def test_sigterm_leaves_nothing_in_the_directory(tmp_path: Path, is_wanted: Callable[[Path], bool]) -> None:
    with started("doctor", tmp_path) as process:
        while not any(map(is_wanted, tmp_path.iterdir())):
            assert process.poll() is None
        process.terminate()
        assert ended(process) == (-signal.SIGTERM, b"")
    assert list(tmp_path.iterdir()) == []


def test_a_disk_without_inodes_is_refused(tmp_path: Path) -> None:
    def work() -> None:
        examination = examine(tmp_path)
        assert refused(examination) == ["operations"]
        assert "No space left" in of(examination, "operations").reason

    on_a_small_disk(tmp_path, work, size="4m,nr_inodes=1")


def test_a_file_system_in_memory_is_doubtful_and_so_are_its_syncs(in_memory: Path) -> None:
    examination = examine(in_memory)
    assert refused(examination) == []
    assert of(examination, "file system").value == "tmpfs"
    assert of(examination, "file system").verdict is of(examination, "time of a sync").verdict is Verdict.DOUBTFUL


def test_a_file_system_that_a_writer_refuses_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with Directory(str(tmp_path)) as directory:
        monkeypatch.setitem(_REMOTE, lib.binlog_filesystem(directory.fd), "this one")
    examination = examine(tmp_path)
    assert refused(examination) == ["file system"]
    assert "is on this one" in of(examination, "file system").reason
    assert "--file-system any" in of(examination, "file system").remedy


def test_a_full_disk_is_refused(tmp_path: Path) -> None:
    def work() -> None:
        (tmp_path / "ballast").write_bytes(bytes(1 << 20))
        examination = examine(tmp_path)
        assert refused(examination) == ["free space"]
        assert [path.name for path in tmp_path.iterdir()] == ["ballast"]

    on_a_small_disk(tmp_path, work, size="1m")


def test_a_read_only_file_system_is_only_read(tmp_path: Path) -> None:
    def work() -> None:
        with binlog.Writer(tmp_path) as writer:
            writer.append(b"one")
        make_read_only(tmp_path)
        examination = examine(tmp_path)
        assert refused(examination) == []
        assert of(examination, "operations").verdict is of(examination, "permissions").verdict is Verdict.DOUBTFUL
        assert "Read-only file system" in of(examination, "operations").reason
        # Through the header of the log itself.
        assert of(examination, "waking a process").verdict is Verdict.OK

    on_a_small_disk(tmp_path, work)


@needs_root
def test_another_users_log_can_be_read_but_not_changed() -> None:
    with folder_of_user() as folder:
        with binlog.Writer(folder / "log", permissions=0o644) as writer:
            writer.append(b"one")
        (folder / "log").chmod(0o755)
        os.chown(folder / "log", 0, 0)
        os.chown(folder / "log" / "00000001.dat", 0, 0)

        examine(folder / "log")  # imports everything

        def work() -> None:
            found = of(examine(folder / "log"), "permissions")
            assert found.verdict is Verdict.DOUBTFUL
            assert found.value.startswith("files of root, mode 0644; this user is #")
            assert "run this as root" in found.remedy

        as_user(work)
        (folder / "log").chmod(0o700)
        as_user(lambda: _assert_refused(folder / "log"))


def _assert_refused(log: Path) -> None:
    assert refused(examine(log)) == ["access"]


def test_a_poisoned_log_is_refused(tmp_path: Path) -> None:
    with binlog.Writer(tmp_path) as writer:
        writer.append(b"one")
    path = tmp_path / "00000001.dat"
    data = path.read_bytes()
    header = parse_log_header(data[:256], path=str(path))
    path.write_bytes(header._replace(flags=Flag.POISON, poison_errno=5).pack() + data[256:])
    examination = examine(tmp_path)
    assert refused(examination) == ["poison"]
    assert "Input/output error" in of(examination, "poison").value
    assert path.read_bytes()[256:] == data[256:]


def test_a_damaged_log_is_refused(tmp_path: Path) -> None:
    with binlog.Writer(tmp_path) as writer:
        writer.append(b"one")
    with (tmp_path / "00000001.dat").open("r+b") as file:
        file.write(bytes(256))
    [found] = [each for each in examine(tmp_path).findings if each.verdict is Verdict.REFUSED]
    assert (found.subject, found.value) == ("log", "cannot be read")
    assert "`binlog check`" in found.remedy


def test_foreign_writers_are_slow(tmp_path: Path) -> None:
    jpos_file(tmp_path, [b"one"])
    found = of(examine(tmp_path), "foreign writers")
    assert (found.verdict, found.value) == (Verdict.SLOW, "yes")


def test_a_writer_of_another_container_has_another_shared_memory(tmp_path: Path) -> None:
    log = tmp_path / "log"
    with binlog.Writer(log) as writer:
        writer.append(b"one")
        assert of(examine(log), "writers").value == "at least one, with a staging area in this /dev/shm"
        command = [*container(log, tmp_path / "place"), sys.executable, "-m", "binlog", "doctor", "--json"]
        done = run_in(ROOT, [*command, str(tmp_path / "place")])
    [found] = [each for each in json.loads(done.stdout)["findings"] if each["subject"] == "writers"]
    assert (found["verdict"], found["value"]) == ("slow", "at least one, in another /dev/shm")
    assert of(examine(log), "writers").value == "none"


def run_in(folder: Path, command: list[str], **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command, cwd=folder, env={**ENVIRONMENT, **environment}, capture_output=True, text=True, check=False
    )


def test_compiled_modules_of_another_processor_are_reported(tmp_path: Path) -> None:
    shutil.copytree(ROOT / "binlog", tmp_path / "binlog", ignore=shutil.ignore_patterns("__pycache__"))
    with (tmp_path / "binlog" / "_native.abi3.so").open("r+b") as file:
        file.seek(18)
        file.write(struct.pack("=H", 243))
    command = [sys.executable, "-m", "binlog", "doctor", "--json"]
    done = run_in(tmp_path, command, PYTHONPATH=str(tmp_path))
    assert done.returncode == 1, done.stderr
    [found] = [each for each in json.loads(done.stdout)["findings"] if each["verdict"] == "refused"]
    assert found["subject"] == "compiled modules"
    assert "riscv64" in found["value"]
    assert "_native.abi3.so" in found["reason"]


def test_a_limit_on_open_files_is_doubtful(tmp_path: Path) -> None:
    command = ["sh", "-c", 'ulimit -n 100 && exec "$@"', "sh", sys.executable, "-m", "binlog", "doctor", str(tmp_path)]
    done = run_in(ROOT, command)
    assert done.returncode == 0, done.stderr
    assert "  doubtful  open files          100, at most 100\n" in done.stdout
    assert "mend: ulimit -n 1024" in done.stdout


@pytest.mark.parametrize(
    ("median_us", "verdict"),
    [(3, Verdict.DOUBTFUL), (19.9, Verdict.DOUBTFUL), (20, Verdict.OK), (4000, Verdict.OK), (30_000, Verdict.SLOW)],
)
def test_the_verdict_on_the_time_of_a_sync(median_us: float, verdict: Verdict) -> None:
    assert sync_finding(median_us, 50_000).verdict is verdict


def test_a_process_that_cannot_be_woken_is_slow(tmp_path: Path) -> None:
    """The kernel has no page for a futex in an empty file."""
    (tmp_path / "empty").touch()
    found = _woken(str(tmp_path / "empty"), 100, "waking a process")
    assert (found.verdict, found.value) == (Verdict.SLOW, "does not work (polled)")


def test_the_processor_of_a_compiled_module_is_read_from_it(tmp_path: Path) -> None:
    file = tmp_path / "module.so"
    for number, name in [(62, "x86_64"), (183, "aarch64"), (8, "ELF machine 8")]:
        file.write_bytes(b"\x7fELF".ljust(18, b"\0") + struct.pack("=H", number))
        assert _machine_of(file) == name
    file.write_bytes(b"#!/bin/sh")
    assert _machine_of(file) == "no ELF file"


def test_each_extra_for_users_says_what_needs_it() -> None:
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    assert set(_EXTRAS) == set(extras) - {"test", "lint", "bench", "docs", "wheel"}


def test_the_packages_of_an_extra_are_found_in_the_metadata() -> None:
    lines = ["click>=8", 'pyarrow>=18; extra == "spark"', "a.b-c[x]<2; python_version > '3' and extra == 'spark'"]
    assert _packages([*lines, 'z; extra == "seal"'], "spark") == ["pyarrow", "a.b-c"]


def test_the_text_fits_on_a_narrow_terminal(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert main(["doctor", str(tmp_path)]) == 0
    lines = capfd.readouterr().out.splitlines()
    assert lines[0] == "machine"
    assert max(map(len, lines)) <= 80


def test_json_and_the_exit_code(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    with Directory(str(tmp_path)) as directory:
        monkeypatch.setitem(_REMOTE, lib.binlog_filesystem(directory.fd), "this one")
    monkeypatch.setenv("BINLOG_DIR", str(tmp_path))
    assert main(["doctor", "--json"]) == 1
    found = json.loads(capfd.readouterr().out)
    assert (found["path"], found["refused"]) == (str(tmp_path), True)
    keys = {"area", "subject", "verdict", "value", "reason", "remedy"}
    assert all(set(each) == keys for each in found["findings"])


def test_a_missing_directory_cannot_be_examined(tmp_path: Path) -> None:
    with pytest.raises(NotFoundError):
        examine(tmp_path / "missing")
    done = run("doctor", tmp_path / "missing")
    assert (done.returncode, done.stdout) == (3, b"")
