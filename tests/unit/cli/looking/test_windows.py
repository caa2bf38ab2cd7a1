"""--since, --until, -n, -r and --count print what a scan of all records finds."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from itertools import product
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import binlog
from binlog import Entry, Reader
from binlog.cli.looking.window import _LAST_BYTES
from binlog.cli.main import main
from binlog.format.index_file import ENTRY_BYTES, HEADER_BYTES
from tests.support.checkout import ROOT
from tests.support.clocks import ShiftedClocks
from tests.support.examples import examples
from tests.support.indexes import date_entries

_WRITER = """
import sys
import binlog
with binlog.Writer(sys.argv[1]) as writer:
    for line in sys.stdin:
        word, _, number = line.strip().partition(" ")
        if word == "cutover":
            writer.cutover()
        elif word == "many":
            writer.append_many([b"many %s.%d" % (number.encode(), index) for index in range(3)])
        else:
            writer.append(b"one " + number.encode(), mode=binlog.Mode[word.upper()])
        print(flush=True)
"""


_MEASURED = """
import resource, sys
from binlog.cli.main import main
code = main(sys.argv[1:])
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, flush=True)
sys.exit(code)
"""


@contextmanager
def _writer(log: Path, clocks: ShiftedClocks) -> Iterator[subprocess.Popen[str]]:
    environment = {**os.environ, **clocks.environment}
    command = [sys.executable, "-c", _WRITER, str(log)]
    with subprocess.Popen(
        command, cwd=ROOT, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        yield process
        assert process.stdin is not None
        process.stdin.close()
        assert process.wait() == 0


def _do(process: subprocess.Popen[str], line: str) -> None:
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(f"{line}\n")
    process.stdin.flush()
    process.stdout.readline()


def _all_with_times(log: Path) -> list[tuple[datetime, Entry]]:
    with Reader(log) as reader:
        return [(entry.time, entry) for entry in reader]


def _out(capfd: pytest.CaptureFixture[str], *words: object) -> list[str]:
    capfd.readouterr()
    assert main([str(word) for word in words]) == 0
    return capfd.readouterr().out.splitlines()


def _check_all(log: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """Compare the output for many windows with a scan."""
    everything = _all_with_times(log)
    moments = sorted({time for time, _ in everything})
    bounds = [moments[0], moments[len(moments) // 2], moments[-1] + timedelta(microseconds=1)]
    for since, until in product([None, *bounds], repeat=2):
        times = [*(["--since", since.isoformat()] if since else []), *(["--until", until.isoformat()] if until else [])]
        wanted = [
            entry.data.decode()
            for time, entry in everything
            if (since is None or time >= since) and (until is None or time < until)
        ]
        for command in (["cat"], ["tail"] if times else ["tail", "--from", "beginning"]):
            assert _out(capfd, *command, *times, log) == wanted
            assert _out(capfd, *command, "-r", *times, log) == wanted[::-1]
        assert _out(capfd, "tail", "--count", *times, log) == _out(capfd, "cat", "--count", *times, log)
        assert _out(capfd, "cat", "--count", *times, log) == [str(len(wanted))]
        for count in (0, 1, 5):
            last = wanted[-count:] if count else []
            assert _out(capfd, "tail", "-n", count, *times, log) == last
            assert _out(capfd, "tail", "-r", "-n", count, *times, log) == last[::-1]


@pytest.mark.slow
def test_windows_equal_a_scan_of_a_log_with_equal_times_and_clock_steps(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    log = tmp_path / "shifted"  # `check` reports times in the future, so it is not the fixture's
    clocks = ShiftedClocks(tmp_path / "clocks")
    shifts = [0, -3600, 0, 3600, -86400, 60, 7200, 0]
    with _writer(log, clocks) as process:
        for number, shift in enumerate(shifts):
            clocks.move_wall_clock(shift)
            for line in (f"sync {number}", f"many {number}", f"sync {number}b"):
                _do(process, line)
            if number % 3 == 1:
                _do(process, "cutover")
    times = [time for time, _ in _all_with_times(log)]
    assert times != sorted(times)
    assert len(set(times)) < len(times)
    _check_all(log, capfd)
    binlog.archive(log)
    _check_all(log, capfd)


@pytest.mark.slow
@pytest.mark.parametrize("entry_count", [0, 2])
def test_windows_equal_a_scan_of_records_that_the_index_does_not_cover(
    log: Path, capfd: pytest.CaptureFixture[str], entry_count: int
) -> None:
    with binlog.Writer(log) as writer:
        for number in range(5):
            writer.append(b"%d" % number)
    os.truncate(log / "00000001.idx", HEADER_BYTES + entry_count * ENTRY_BYTES)
    now_ns = time.time_ns()  # the kernel's time of the last write may be some milliseconds earlier
    os.utime(log / "00000001.dat", ns=(now_ns, now_ns))
    assert len({time for time, _ in _all_with_times(log)}) == entry_count + 1
    _check_all(log, capfd)


@pytest.mark.slow
def test_index_times_of_1970_hide_no_records(log: Path, capfd: pytest.CaptureFixture[str]) -> None:
    log = log.parent / "dated"  # `check` reports such times, so it is not the fixture's
    with binlog.Writer(log) as writer:
        for number in range(5):
            writer.append(b"%d" % number)
            if number == 2:
                writer.cutover()
    for number in (1, 2):
        date_entries(log, number, lambda place, count: 10.0)
    for words in (["cat"], ["cat", "-r"], ["tail"], ["tail", "-r"]):
        out = _out(capfd, *words, "--since", "-1h", log)
        assert sorted(out) == ["0", "1", "2", "3", "4"]
        assert _out(capfd, *words, "--until", "1980-01-01", log) == []
    _check_all(log, capfd)


@pytest.mark.slow
def test_the_parts_that_are_read_backwards_have_each_record_once(log: Path, capfd: pytest.CaptureFixture[str]) -> None:
    records = [b"%06d" % number + b"x" * 1000 for number in range(4 * _LAST_BYTES // 1000)]
    with binlog.Writer(log, mode="flush") as writer:
        for start in range(0, len(records), 100):
            writer.append_many(records[start : start + 100])
    assert len(binlog.split_range(log, 1, 256, binlog.stat(log).files[0].tail, bytes_max=_LAST_BYTES)) > 3
    assert _out(capfd, "cat", "-r", log) == [record.decode() for record in reversed(records)]
    last = 2 * _LAST_BYTES // 1000
    assert _out(capfd, "tail", "-n", last, log) == [record.decode() for record in records[-last:]]


@pytest.mark.slow
def test_of_a_log_larger_than_memory_only_the_records_that_match_are_held(log: Path) -> None:
    size_mb, wanted = 96, b'{"severity":17}'
    with binlog.Writer(log, mode="flush") as writer:
        for _ in range(size_mb):
            writer.append_many([*[b"x" * 1000] * 1000, wanted])
    peaks_mb = []
    for words in (["cat"], ["tail", "-n", "1000"], ["tail", "-n", "1000", "--since", "-1h"]):
        run = subprocess.run(
            [sys.executable, "-c", _MEASURED, *words, "--level", "error", str(log)], capture_output=True, check=True
        )
        *lines, peak = run.stdout.splitlines()
        assert lines == [wanted] * size_mb
        peaks_mb.append(int(peak) / 1024)
    assert max(peaks_mb[1:]) < peaks_mb[0] + size_mb / 4, peaks_mb


@pytest.mark.slow
@settings(max_examples=examples(10), deadline=None)
@given(st.data())
def test_several_logs_are_merged_by_time(tmp_path_factory: pytest.TempPathFactory, data: st.DataObject) -> None:
    folder = tmp_path_factory.mktemp("logs")
    logs = [folder / name for name in ("a", "b", "c")]
    writers = [binlog.Writer(log, mode="flush") for log in logs]
    order = data.draw(st.lists(st.integers(0, 2), min_size=3, max_size=12))
    for number, index in enumerate([0, 1, 2, *order]):
        writers[index].append(b"%d" % number)
        if number % 4 == 3:
            writers[index].cutover()
    for writer in writers:
        writer.close()
    merged = sorted(
        (time, index, number, entry.data.decode())
        for index, log in enumerate(logs)
        for number, (time, entry) in enumerate(_all_with_times(log))
    )
    wanted = [f"{logs[index]}: {text}" for _, index, _, text in merged]

    def out(*words: str) -> list[str]:
        done = subprocess.run(
            [sys.executable, "-m", "binlog", *words, *map(str, logs)], cwd=ROOT, capture_output=True, check=True
        )
        return done.stdout.decode().splitlines()

    assert out("cat") == wanted
    assert out("cat", "-r") == wanted[::-1]
    assert out("tail", "-n", "4") == wanted[-4:]
    assert out("tail", "-n", "4", "-r") == wanted[-4:][::-1]


def test_damage_ends_reading_backwards_with_an_error(log: Path, capfd: pytest.CaptureFixture[str]) -> None:
    log = log.parent / "damaged"
    with binlog.Writer(log) as writer:
        refs = [writer.append(record) for record in (b"one", b"two", b"three")]
    with open(log / "00000001.dat", "r+b") as file:
        os.pwrite(file.fileno(), b"T", refs[1].offset + 4)
    assert main(["cat", "-r", str(log)]) == 1
    captured = capfd.readouterr()
    assert captured.out == "one\n"
    assert "[index-crc]" in captured.err
    assert main(["cat", "-r", "--no-verify", str(log)]) == 0
    assert capfd.readouterr().out == "three\nTwo\none\n"


@pytest.mark.parametrize(
    "words",
    [
        ["tail", "-f", "--until", "now"],
        ["tail", "-f", "-r"],
        ["tail", "--position", "P", "--count"],
        ["tail", "--from", "1:256", "--until", "now"],
        ["cat", "--file", "1", "--until", "now"],
        ["cat", "--file", "1", "OTHER"],
        ["tail", "--position", "P", "OTHER"],
        ["cat", "--fields", "time"],
        ["cat", "--fields", "time,,x", "-o", "csv"],
        ["cat", "-o", "template"],
        ["cat", "-o", "csv", "--json"],
        ["cat", "-0", "-o", "csv"],
        ["cat", "--template", "{time"],
        ["cat", "--template", "{time!r}"],
        ["cat", "--template", "{}"],
        ["cat", "--template", "{time:>9999999}"],
        ["cat", "--grep", "("],
    ],
    ids=" ".join,
)
def test_options_that_do_not_fit_are_wrong_usage(
    words: list[str], log: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    with binlog.Writer(log) as writer:
        writer.append(b"x")
    assert main([*(str(log) if word == "OTHER" else word for word in words), str(log)]) == 2
    captured = capfd.readouterr()
    assert captured.out == ""
    assert captured.err.count("\n") == 1


def test_moments_are_local_unless_utc(monkeypatch: pytest.MonkeyPatch) -> None:
    from binlog.cli.looking.times import parse_moment, rfc3339, short_time

    monkeypatch.setenv("TZ", "Europe/Helsinki")
    import time

    time.tzset()
    try:
        assert parse_moment("2025-01-31 12:00", utc=False) == datetime(2025, 1, 31, 10, tzinfo=UTC)
        assert parse_moment("2025-07-31 12:00", utc=False) == datetime(2025, 7, 31, 9, tzinfo=UTC)
        assert parse_moment("2025-01-31 12:00", utc=True) == datetime(2025, 1, 31, 12, tzinfo=UTC)
        assert parse_moment("2025-01-31T12:00:00-05:00", utc=False) == datetime(2025, 1, 31, 17, tzinfo=UTC)
        for utc in (False, True):
            today, yesterday = parse_moment("today", utc=utc), parse_moment("Yesterday", utc=utc)
            now = datetime.now(UTC)
            assert timedelta(0) <= now - today <= timedelta(hours=25)
            assert timedelta(hours=23) <= today - yesterday <= timedelta(hours=25)
            assert (today.hour, today.minute) == (0, 0)
            assert abs(now - timedelta(hours=1) - parse_moment("-1h", utc=utc)) < timedelta(minutes=1)
        time_ns = 1738324800_123456000
        assert rfc3339(time_ns, utc=True) == "2025-01-31T12:00:00.123456Z"
        assert rfc3339(time_ns + 1, utc=False) == "2025-01-31T14:00:00.123456+02:00"
        assert short_time(time_ns + 2, utc=False) == "2025-01-31 14:00:00.123"
    finally:
        monkeypatch.undo()
        time.tzset()
