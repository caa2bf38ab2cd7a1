"""Every text that explains the installation names a checkout or a wheel.

The name `binlog` on a package index belongs to another project, with the same import name.
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.checkout import ROOT, copy_checkout

FOLDERS = ("binlog", "pyspark_binlog", "native", "stress", "tests", "docs", "examples", ".ci")
KINDS = {".py", ".pyi", ".md", ".toml", ".c", ".h", ".sh", ""}

# An installer, the word install or add, and the rest of the line.
INSTALL = re.compile(r"\b(?:pipx?|uvx?|poetry|pdm|conda)\b[\w \t./-]*\b(?:install|add|run|tool)\b(.*)")
# Our name as a requirement: not within a path, a file name, a word or another project's name.
OURS = re.compile(r"(?<![\w./-])binlog(?:[-_]shared)?(?![\w./-])")


def files() -> list[Path]:
    """Return every text file of the project except this one."""
    found = [path for folder in FOLDERS for path in (ROOT / folder).rglob("*") if path.is_file()]
    found += [path for path in ROOT.iterdir() if path.is_file()]
    return [path for path in found if path.suffix in KINDS and path != Path(__file__)]


def installs_by_name(text: str) -> list[str]:
    """Return the instructions to install us by name."""
    return [rest for rest in INSTALL.findall(text) if OURS.search(rest)]


@pytest.mark.parametrize(
    "line",
    [
        "pip install binlog",
        "'pip install binlog[spark]' installs it",
        "python -m pip install -U 'binlog-shared[spark]>=0.1'",
        "uv add binlog",
        "/opt/extract/bin/pip install --quiet binlog_shared",
    ],
)
def test_an_installation_by_name_is_found(line: str) -> None:
    assert installs_by_name(line)


@pytest.mark.parametrize(
    "line",
    [
        "pip install .",
        "in a checkout of binlog, pip install '.[spark]' installs them",
        'pip install "$(ls dist/binlog_shared-*.whl)[spark]"',
        "pip install persist-queue",
    ],
)
def test_an_installation_from_a_checkout_or_a_wheel_is_not(line: str) -> None:
    assert not installs_by_name(line)


@pytest.mark.slow
def test_no_text_installs_another_project() -> None:
    found = {str(path.relative_to(ROOT)): installs_by_name(path.read_text(errors="replace")) for path in files()}
    assert {path: lines for path, lines in found.items() if lines} == {}


@pytest.mark.slow
def test_the_distribution_has_its_own_name_and_the_import_and_command_keep_theirs(tmp_path: Path) -> None:
    copy_checkout(tmp_path / "tree")
    program = f"import setuptools.build_meta as backend; backend.prepare_metadata_for_build_wheel({str(tmp_path)!r})"
    subprocess.run([sys.executable, "-c", program], cwd=tmp_path / "tree", capture_output=True, check=True)
    [folder] = tmp_path.glob("*.dist-info")
    assert folder.name.startswith("binlog_shared-")
    assert "Name: binlog-shared" in (folder / "METADATA").read_text().splitlines()
    assert (folder / "entry_points.txt").read_text() == "[console_scripts]\nbinlog = binlog.cli.main:main\n"
    assert "binlog" in (folder / "top_level.txt").read_text().split()
