"""The commands of docs/moving.md print what the document says."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

TEXT = (Path(__file__).parents[2] / "docs" / "moving.md").read_text()
_ENVIRONMENT = {**os.environ, "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"}


def _commands() -> list[tuple[str, list[str]]]:
    """Return each command with the lines that follow it."""
    found: list[tuple[str, list[str]]] = []
    for block in re.findall(r"^```console\n(.*?)^```", TEXT, re.DOTALL | re.MULTILINE):
        for line in block.splitlines():
            if line.startswith("$ "):
                found.append((line[2:], []))
            else:
                found[-1][1].append(line)
    return found


@pytest.mark.slow
def test_the_commands_of_the_moving_document_print_what_it_says(tmp_path: Path) -> None:
    commands = _commands()
    assert len(commands) == 5
    for command, expected in commands:
        done = subprocess.run(
            ["sh", "-c", command], cwd=tmp_path, env=_ENVIRONMENT,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=True,
        )  # fmt: skip
        assert done.stdout.splitlines() == expected, command
