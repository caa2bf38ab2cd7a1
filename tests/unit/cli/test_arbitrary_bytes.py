"""Records of arbitrary bytes survive a round trip: newlines, NULs, invalid UTF-8."""

from __future__ import annotations

import io
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from binlog.cli.main import main
from tests.support.examples import examples
from tests.unit.cli.run_command import fill, records, run

# Newlines, NULs, quotes and backslashes are more frequent than in random bytes.
_PIECES = st.sampled_from([b"\n", b"\0", b'"', b"\\", b"{", b"\xff", "ü".encode(), b"a"]) | st.binary(max_size=3)
RECORDS = st.lists(st.lists(_PIECES).map(b"".join), max_size=8)
FROM = ["tail", "--from", "beginning"]


@contextmanager
def _streams(data: bytes) -> Iterator[io.BytesIO]:
    """Replace standard input and output in this process, to avoid a process for each example."""
    out = io.BytesIO()
    with TemporaryDirectory() as folder:
        Path(folder, "in").write_bytes(data)
        kept = [os.dup(fd) for fd in (0, 1)]
        with open(Path(folder, "in"), "rb") as given, open(Path(folder, "out"), "w+b") as taken:
            os.dup2(given.fileno(), 0)
            os.dup2(taken.fileno(), 1)
            try:
                yield out
            finally:
                for fd, before in enumerate(kept):
                    os.dup2(before, fd)
                    os.close(before)
                taken.seek(0)
                out.write(taken.read())


def _round_trip(content: list[bytes], put: list[str], get: list[str]) -> list[bytes]:
    with TemporaryDirectory() as folder:
        first, second = Path(folder, "first"), Path(folder, "second")
        fill(first, content)
        with _streams(b"") as out:
            assert main([*get, str(first)]) == 0
        with _streams(out.getvalue()):
            assert main(["append", "-q", *put, str(second)]) == 0
        return records(second)


@settings(deadline=None, max_examples=examples(15))
@given(
    RECORDS,
    st.sampled_from([["cat", "--json"], ["tail", "-n", "100", "--json"], [*FROM, "--json"]]),
)
@pytest.mark.slow
def test_json_preserves_any_bytes(content: list[bytes], get: list[str]) -> None:
    assert _round_trip(content, ["--from-json"], get) == content


@settings(deadline=None, max_examples=examples(15))
@given(RECORDS, st.sampled_from([["cat", "-0"], ["tail", "-n", "100", "--null"], [*FROM, "-0"]]))
@pytest.mark.slow
def test_null_preserves_all_bytes_but_nul(content: list[bytes], get: list[str]) -> None:
    content = [record.replace(b"\0", b"") for record in content]
    assert _round_trip(content, ["-0"], get) == content


@pytest.mark.slow
def test_find_and_xargs_use_the_same_separator(log: Path) -> None:
    done = run("append", "-0", log, data=b"a\nb\0\0c")
    assert done.stderr == b"binlog: appended 3 records, 1:256 to 1:267\n"
    assert records(log) == [b"a\nb", b"", b"c"]
    assert run("cat", "-0", log).stdout == b"a\nb\0\0c\0"


@pytest.mark.slow
@pytest.mark.parametrize(
    "line",
    [b"", b"[]", b"{}", b"nonsense", b'{"text": 1}', b'{"base64": "?"}', b'{"text": "a", "base64": "YQ=="}', b"\xff"],
)
def test_an_invalid_line_stops_the_command_after_the_earlier_records(log: Path, line: bytes) -> None:
    done = run("append", "--from-json", log, data=b'{"text":"1"}\n{"text":"2","other":5}\n' + line + b"\n{}\n")
    out = b'binlog: line 3 is not an object with "text" or "base64"; appended 2 records, 1:256 to 1:261\n'
    assert (done.returncode, done.stderr) == (1, out)
    assert records(log) == [b"1", b"2"]


def test_conflicting_options_exit_with_2(log: Path, capfd: pytest.CaptureFixture[str]) -> None:
    fill(log, [b"1"])
    for arguments in (["append", "-0", "--from-json"], ["cat", "-0", "--json"], ["tail", "-0", "--json"]):
        assert main([*arguments, str(log)]) == 2
        assert "cannot be used together" in capfd.readouterr().err


@pytest.mark.slow
def test_from_json_accepts_the_output_of_json(log: Path) -> None:
    fill(log, ["Grüße\n".encode(), b"\xff\0"])
    lines = run("cat", "--json", log).stdout
    assert [sorted(json.loads(line).keys() & {"text", "base64"}) for line in lines.splitlines()] == [
        ["text"],
        ["base64"],
    ]
    copy = log.parent / "copy"
    assert run("append", "--from-json", copy, data=lines).returncode == 0
    assert records(copy) == records(log)
