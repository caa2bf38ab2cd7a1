"""What docs/commitlog.md shows is run, in the order in which it stands there."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_the_examples_of_the_commit_log_work(tmp_path: Path) -> None:
    text = (ROOT / "docs" / "commitlog.md").read_text()
    said = []
    for example in re.findall(r"^```python\n(.*?)^```", text, re.DOTALL | re.MULTILINE):
        done = subprocess.run(
            [sys.executable, "-c", example], cwd=tmp_path, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr
        said.append(done.stdout.splitlines())
    assert said == [["[0] b'17.20'"], ["0 b'17.20'", "1 b'3.00'", "2 b'4.50'", "1 3"], ["[]"]]
