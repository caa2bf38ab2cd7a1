from __future__ import annotations

import re
import shutil
import struct
import subprocess
import sys
from pathlib import Path

import pytest

import binlog
from binlog.format.tables import document, generated_files

ROOT = Path(__file__).parents[3]


def _run(root: Path, option: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "binlog.format", option, "--root", str(root)]
    return subprocess.run(command, capture_output=True, text=True, cwd=ROOT, check=False)


@pytest.mark.slow
def test_the_document_and_the_c_constants_are_current() -> None:
    result = _run(ROOT, "--check")
    assert result.returncode == 0, result.stderr


@pytest.mark.slow
def test_a_stale_document_is_reported_and_rewritten(tmp_path: Path) -> None:
    for path in generated_files(ROOT):
        copy = tmp_path / path.relative_to(ROOT)
        copy.parent.mkdir(exist_ok=True)
        shutil.copy(path, copy)
    page = tmp_path / "docs" / "format.md"
    page.write_text(page.read_text().replace("| 8 | 8 | tail |", "| 9 | 8 | tail |"))
    assert _run(tmp_path, "--check").returncode == 1
    assert _run(tmp_path, "--write").returncode == 0
    assert _run(tmp_path, "--check").returncode == 0
    assert page.read_text() == (ROOT / "docs" / "format.md").read_text()


def test_a_document_without_the_marker_of_a_table_is_refused() -> None:
    with pytest.raises(ValueError, match="has markers for"):
        document("<!-- table: record -->\n<!-- end -->\n")


def test_the_script_in_the_document_reads_a_file_of_ours(tmp_path: Path) -> None:
    """A stranger needs ten lines and `struct`."""
    page = (ROOT / "docs" / "format.md").read_text()
    script = re.search(r"```python\n(.*?)```", page, re.DOTALL)
    assert script is not None
    lines = script[1].splitlines()
    assert len(lines) <= 10
    assert re.findall(r"^(?:import|from) (.*)$", script[1], re.MULTILINE) == ["struct, sys"]
    records = [b"hello", b"", b"A" * 1000, bytes(range(256))]
    with binlog.Writer(tmp_path / "log") as writer:
        writer.append_many(records)
    path = tmp_path / "log" / "00000001.dat"
    done = subprocess.run([sys.executable, "-c", script[1], path], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == [repr(record) for record in records]
    data = path.read_bytes()
    assert struct.unpack_from(">I", data) == (252,)
    assert data[248:256] == bytes(8)
    assert data[256:265] == b"\0\0\0\5hello"
