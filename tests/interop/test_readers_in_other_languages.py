"""The readers in examples/readers/ return the same records as binlog.Reader, and refuse unknown and damaged files."""

from __future__ import annotations

import base64
import os
import shutil
import subprocess
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

import binlog
from binlog import Mode, Ref, Writer
from binlog.format.log_header import parse_log_header
from tests.support.checkout import ROOT
from tests.support.go_programs import built
from tests.support.logs import job, jobs_by_writer, jpos_file
from tests.support.turns import in_turn
from tests.support.workers import append_and_cut_over, run_all

# One worker compiles Go's standard library and the Java class.
pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("go")]

READERS = ROOT / "examples" / "readers"
Line = tuple[str, str, bytes]


def _go(factory: pytest.TempPathFactory) -> list[str]:
    return [str(built(READERS / "read_log.go", factory))]


def _node(_: pytest.TempPathFactory) -> list[str]:
    if not shutil.which("node"):
        pytest.skip("node is not installed")
    return ["node", str(READERS / "read_log.js")]


def _java(factory: pytest.TempPathFactory) -> list[str]:
    if not shutil.which("javac"):
        pytest.skip("javac is not installed")
    folder = factory.mktemp("java")
    subprocess.run(["javac", "-Xlint:all,-try", "-Werror", "-d", folder, READERS / "ReadLog.java"], check=True)
    return ["java", "-XX:TieredStopAtLevel=1", "-cp", str(folder), "ReadLog"]


_LANGUAGES: dict[str, Callable[[pytest.TempPathFactory], list[str]]] = {"java": _java, "go": _go, "node": _node}


@pytest.fixture(scope="module", params=in_turn(_LANGUAGES))
def reader(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """The command of a reader."""
    return _LANGUAGES[request.param](tmp_path_factory)


def _parsed(line: str) -> Line:
    ref, after, data = line.removesuffix("\n").split(" ")
    return ref, after, base64.b64decode(data, validate=True)


def _read(reader: Sequence[str], log: Path, *ref: str) -> list[Line]:
    done = subprocess.run([*reader, log, *ref], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    return [_parsed(line) for line in done.stdout.splitlines()]


def _refused(reader: Sequence[str], log: Path, *ref: str) -> tuple[list[Line], str]:
    """Return the records before the error, and the message."""
    done = subprocess.run([*reader, log, *ref], capture_output=True, text=True, check=False)
    assert done.returncode == 1, done.stderr
    (message,) = done.stderr.splitlines()
    return [_parsed(line) for line in done.stdout.splitlines()], message


def _expected(log: Path, start: Ref | None = None) -> list[Line]:
    """Return the records of binlog.Reader; the ref after the last record of a closed file is the end of that file."""
    with binlog.Reader(log, *([start] if start else [])) as entries:
        found = [(entry.ref, entry.data) for entry in entries]
    return [(str(ref), str(Ref(ref.number, ref.offset + 4 + len(data))), data) for ref, data in found]


@contextmanager
def _following(reader: Sequence[str], log: Path, *ref: str) -> Iterator[Iterator[Line]]:
    """Follow a log, and kill the reader at the end."""
    with subprocess.Popen([*reader, "-f", log, *ref], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            yield map(_parsed, process.stdout)
        finally:
            process.kill()


@pytest.fixture
def log(tmp_path: Path) -> Path:
    """A log of three files, with records of each byte and of many sizes."""
    path = tmp_path / "log"
    with Writer(path) as writer:
        writer.append_many([bytes([value]) for value in range(256)])
        writer.append(bytes(range(256)) * 4)
        writer.append(b"")
        writer.cutover()
        writer.append(os.urandom(3_000_000))
        writer.append_many([b"x" * size for size in range(300)])
        writer.cutover()
        writer.append(b"\n\r\0")
        writer.append(b"flushed", mode=Mode.FLUSH)
    return path


def test_all_records_are_read(reader: list[str], log: Path) -> None:
    found = _read(reader, log)
    assert found == _expected(log)
    assert len(found) == 256 + 2 + 301 + 2
    assert len(binlog.stat(log).files) == 3


def test_reading_resumes_at_a_ref(reader: list[str], log: Path) -> None:
    expected = _expected(log)
    for at in (0, 100, 257, 300, len(expected) - 1):
        ref, after, _ = expected[at]
        assert _read(reader, log, ref) == expected[at:]
        assert _read(reader, log, after) == expected[at + 1 :]
    assert _read(reader, log, "2:256") == _expected(log, Ref(2, 256))


def test_a_follower_gets_each_record_across_cutovers(reader: list[str], log: Path) -> None:
    _, end, _ = _expected(log)[-1]
    with Writer(log) as writer, _following(reader, log, end) as lines:
        for number in range(4):
            ref = writer.append(b"%d\n" % number)
            writer.cutover()
            assert next(lines) == (str(ref), str(Ref(ref.number, ref.offset + 6)), b"%d\n" % number)
        ref = writer.append(b"the last one")
        assert next(lines)[::2] == (str(ref), b"the last one")


def test_a_follower_of_a_log_that_does_not_exist_yet_waits(reader: list[str], tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.mkdir()
    assert _read(reader, log) == []
    with _following(reader, log) as lines, Writer(log) as writer:
        writer.append(b"first")
        assert next(lines) == ("1:256", "1:265", b"first")


def test_a_follower_keeps_up_with_writers_that_cut_over(reader: list[str], tmp_path: Path) -> None:
    log, writers, count = tmp_path / "log", 3, 300
    with Writer(log) as writer:
        writer.append(job(0, 0))
    work: list[tuple[Callable[..., Any], tuple[Any, ...]]]
    work = [(append_and_cut_over, (log, number, count, 20)) for number in range(1, writers + 1)]
    with _following(reader, log) as lines, ThreadPoolExecutor(1) as thread:
        assert next(lines)[2] == job(0, 0)
        appending = thread.submit(run_all, "spawn", work)
        found = [next(lines) for _ in range(writers * count)]
        appending.result()
    assert jobs_by_writer(data for _, _, data in found) == {n: list(range(count)) for n in range(1, writers + 1)}
    assert found == _expected(log)[1:]
    assert len(binlog.stat(log).files) > writers * count / 20


def test_a_file_of_jpos_is_read(reader: list[str], tmp_path: Path) -> None:
    jpos_file(tmp_path, [b"hello", b"", b"A" * 1000])
    assert _read(reader, tmp_path) == _expected(tmp_path)
    with Writer(tmp_path) as writer:
        writer.append(b"ours, in their file")
        writer.cutover()
        writer.append(b"ours")
    assert [ref for ref, _, _ in _read(reader, tmp_path)] == ["1:248", "1:257", "1:261", "1:1265", "2:256"]


def test_an_archive_is_refused_with_a_message(reader: list[str], log: Path) -> None:
    first = (log / "00000001.dat").read_bytes()
    expected = _expected(log)
    assert [each.problem for each in binlog.archive(log)] == [None, None]
    found, message = _refused(reader, log)
    assert (found, "00000001.dat.zst: this reader reads no archives" in message) == ([], True)
    assert _read(reader, log, "3:256") == expected[-2:]
    (log / "00000001.dat").write_bytes(first)  # a file counts before its archive
    found, message = _refused(reader, log)
    assert found == expected[:258]
    assert "00000002.dat.zst: this reader reads no archives" in message


def test_a_removed_file_is_reported(reader: list[str], log: Path) -> None:
    expected = _expected(log)
    (log / "00000001.dat").unlink()
    assert _read(reader, log) == expected[258:]
    assert "missing; retention may have removed it" in _refused(reader, log, "1:256")[1]
    assert "missing; retention may have removed it" in _refused(reader, log, "1:261")[1]
    assert _refused(reader, log, "3:999999") == ([], f"{log / '00000003.dat'}: the file ends before 999999")


def test_files_that_were_copied_at_different_moments_are_refused(reader: list[str], log: Path, tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    copy.mkdir()
    expected = _expected(log)
    for name in ("00000001.dat", "00000003.dat"):
        shutil.copy(log / name, copy)
    # The second file as it was before its records, but closed; its CRCs are correct.
    shutil.copy(log / "00000002.dat", copy)
    _empty(copy / "00000002.dat")
    found, message = _refused(reader, copy)
    assert found == expected[:258]
    assert message == f"{copy / '00000003.dat'}: records are missing before this file"


def _empty(path: Path) -> None:
    """Write a header that says that the file has no records; its CRCs are correct."""
    header = parse_log_header(path.read_bytes()[:256], path=str(path))
    header = header._replace(tail=256, published_tail=256, confirmed_end=256, record_count=0)
    with path.open("r+b") as file:
        file.write(header.pack())


@pytest.mark.parametrize(
    ("offset", "change", "message"),
    [
        (0, b"\0\0\1\0", "not a log file of version 1"),
        (4, b"\0\2", "not a log file of version 1"),
        (16, b"\0\0\0\7", "its header has another number"),
        (24, b"NOTOURS!", "does not know the layout"),
        (30, b"\0\2", "does not know the layout"),
        (40, b"????", "the header is damaged; run binlog check"),
        (72, b"????", "the header is damaged; run binlog check"),
        (8, b"\0\0\0\0\0\0\1\0", "the header is damaged; run binlog check"),  # the tail: at the first record
        (8, b"\0\0\0\0\0\1\0\0", "damaged at 273"),  # the tail: after the end of the records
        (256, b"\7\0\0\0", "damaged at 256, or a record of more than 64 MiB"),
        (264, b"\0\0\0\xff", "damaged at 264, or a record of more than 64 MiB"),
    ],
)
def test_unknown_and_damaged_bytes_are_refused(
    reader: list[str], tmp_path: Path, offset: int, change: bytes, message: str
) -> None:
    with Writer(tmp_path / "log") as writer:
        writer.append_many([b"1234", b"56789"])
        writer.cutover()
    path = tmp_path / "log" / "00000001.dat"
    with path.open("r+b") as file:
        file.seek(offset)
        file.write(change)
    found, said = _refused(reader, tmp_path / "log")
    assert found == ([] if offset < 264 and "273" not in message else _expected_before(path, message))
    assert said.startswith(f"{path}: ")
    assert message in said


def _expected_before(path: Path, message: str) -> list[Line]:
    both: list[Line] = [("1:256", "1:264", b"1234"), ("1:264", "1:273", b"56789")]
    return both if "273" in message else both[:1]


def test_a_wrong_use_is_explained(reader: list[str], tmp_path: Path) -> None:
    path = str(tmp_path)
    for words in ([], [path, "12"], [path, "1:256", "2:256"]):
        done = subprocess.run([*reader, *words], capture_output=True, text=True, check=False)
        assert (done.returncode, done.stdout) == (2, "")
        assert "[-f] DIR [FILE:OFFSET]" in done.stderr
    assert str(tmp_path / "none") in _refused(reader, tmp_path / "none")[1]
