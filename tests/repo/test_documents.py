"""The examples of the README run, in order, and the README keeps to two screens."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text()

# Run in a fresh clone by test_fresh_clone.py; they would run this test again.
_MAKE = ("make demo", "make test")


def _blocks(text: str, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", text, re.DOTALL | re.MULTILINE)


def _commands() -> list[str]:
    lines = [line for block in _blocks(README, "console") for line in block.splitlines()]
    assert all(line.startswith("$ ") for line in lines)
    return [line[2:] for line in lines]


def _run(command: list[str], folder: Path) -> str:
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        command, cwd=folder, env={**os.environ, "PATH": path}, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def _examples() -> list[str]:
    return [block for block in _blocks(README, "python") if "spark" not in block]


@pytest.mark.slow
def test_the_writer_and_the_reader_of_the_readme_work(tmp_path: Path) -> None:
    writer, reader = _examples()
    assert len(writer.splitlines()) + len(reader.splitlines()) <= 14
    _run([sys.executable, "-c", writer], tmp_path)
    said = _run([sys.executable, "-c", reader], tmp_path)
    assert said.splitlines() == ["1:256 b'paid: 17.20'", "1:271 b'one'", "1:278 b'two'"]


@pytest.mark.slow
def test_the_commands_of_the_readme_work(tmp_path: Path) -> None:
    commands = [command for command in _commands() if command not in _MAKE]
    assert len(commands) >= 5
    said = [_run(["sh", "-c", command], tmp_path) for command in commands]
    assert said[1].splitlines() == ["first", "second"]


def test_the_two_commands_of_the_readme_are_the_ones_that_a_fresh_clone_runs() -> None:
    assert tuple(command for command in _commands() if command.startswith("make")) == _MAKE
    gate = (ROOT / ".ci" / "run").read_text()
    assert "as_user make test ||" in gate
    fresh = (ROOT / "tests" / "repo" / "test_fresh_clone.py").read_text()
    assert '"demo"' in fresh
    assert '"test"' in fresh


def test_the_readme_keeps_to_two_screens() -> None:
    assert len(README.splitlines()) <= 100


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.turn(3)
def test_the_spark_example_of_the_readme_works(tmp_path: Path) -> None:
    _run([sys.executable, "-c", _examples()[0]], tmp_path)
    (example,) = (block for block in _blocks(README, "python") if "spark" in block)
    assert "+------+" in _run([sys.executable, "-c", example], tmp_path)


@pytest.mark.parametrize("path", [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))], ids=lambda p: p.name)
def test_links_and_names_of_files_lead_somewhere(path: Path) -> None:
    text = path.read_text()
    links = [link for link in re.findall(r"\]\(([^)#]+)\)", text) if "://" not in link]
    names = re.findall(r"`((?:tests|binlog|native|stress|docs)/[\w/.-]+)`", text)
    missing = [link for link in links if not (path.parent / link).exists()]
    missing += [name for name in names if not (ROOT / name).exists()]
    assert missing == []


@pytest.mark.slow
def test_comments_name_existing_files() -> None:
    missing, count = [], 0
    for folder in ("binlog", "native", "stress"):
        for path in (ROOT / folder).rglob("*.*"):
            if path.suffix not in {".c", ".h", ".py", ".pyi"}:
                continue
            for name in re.findall(r"(?<![\w/.])((?:tests|binlog|native|stress|docs)/[\w/-]+\.\w+)", path.read_text()):
                count += 1
                if not (ROOT / name).exists():
                    missing.append(f"{path.relative_to(ROOT)}: {name}")
    assert count > 100
    assert missing == []


def test_the_tests_that_the_rules_name_exist() -> None:
    named = set(re.findall(r"`(test_\w+)`", (ROOT / "docs" / "durability.md").read_text()))
    there = {
        name
        for path in (ROOT / "tests").rglob("test_*.py")
        for name in re.findall(r"^def (test_\w+)", path.read_text(), re.MULTILINE)
    }
    assert named
    assert named <= there


@pytest.mark.parametrize(
    ("prefix", "numbers", "folder"),
    [
        ("", range(1, 30), "unit/commitlog"),
        ("J", range(1, 41), "unit/journal"),
        ("P", range(1, 21), "unit/paging"),
        ("G", range(1, 57), "."),
        ("A", [*range(1, 5), *range(6, 14), *range(15, 30), *range(32, 36), 55, *range(36, 53), 54], "."),
    ],
    ids=["commit log", "journal", "paging", "consumer groups", "seal and events"],
)
@pytest.mark.slow
def test_each_scenario_of_an_engine_has_existing_tests(prefix: str, numbers: Sequence[int], folder: str) -> None:
    text = (ROOT / "docs" / "testing.md").read_text()
    rows = re.findall(rf"^\| {prefix}(\d+) \| .* \| (.*) \|$", text, re.MULTILINE)
    assert [int(number) for number, _ in rows] == list(numbers)
    for number, tests in rows:
        named = re.findall(r"`([\w/]+\.py)::(test_\w+)`", tests)
        assert named or tests == "with transactions", number
        for file, name in named:
            (path,) = (ROOT / "tests" / folder).rglob(file)
            assert re.search(rf"^def {name}\(", path.read_text(), re.MULTILINE), f"{number}: {file}::{name}"
