"""The examples of docs/commitlog.md run, in order."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.mark.slow
def test_the_examples_of_the_commit_log_work(tmp_path: Path) -> None:
    text = (ROOT / "docs" / "commitlog.md").read_text()
    said = []
    for example in re.findall(r"^```python\n(.*?)^```", text, re.DOTALL | re.MULTILINE):
        done = subprocess.run(
            [sys.executable, "-c", example], cwd=tmp_path, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr
        said.append(done.stdout.splitlines())
    assert said == [["[0] b'17.20'"], ["0 b'17.20'", "1 b'3.00'", "2 b'4.50'", "1 3"], ["[]"], ["8 b'a record'"]]
    stat, *rest = map(_run_in(tmp_path), re.findall(r"^\$ (binlog .*)", text, re.MULTILINE))
    assert stat[1].startswith("stopped cleanly")
    paid = ["17.20", "3.00", "4.50"]
    cat, one, *others = rest
    assert (cat, json.loads(one[0])["text"]) == (paid, "3.00")
    assert others == [paid[1:], ["17.20"], ["no problems found"]]


def _run_in(folder: Path) -> Callable[[str], list[str]]:
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"

    def run(command: str) -> list[str]:
        done = subprocess.run(
            ["sh", "-c", command],
            cwd=folder, env={**os.environ, "PATH": path}, capture_output=True, text=True, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        return done.stdout.splitlines()

    return run
