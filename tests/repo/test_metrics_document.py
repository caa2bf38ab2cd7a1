"""docs/metrics.md names every metric and every alert, and its example and commands work."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import binlog
from binlog.logging import Handler
from binlog.metrics import log_families, program_families

ROOT = Path(__file__).parents[2]
DOCUMENT = (ROOT / "docs" / "metrics.md").read_text()


def test_the_document_has_every_metric_and_no_other(tmp_path: Path) -> None:
    handler = Handler(tmp_path / "events")
    with binlog.Writer(tmp_path / "log") as writer:
        families = log_families([]) + program_families(writers={"w": writer}, handlers={"h": handler})
    handler.close()
    assert set(re.findall(r"`(binlog_\w+)", DOCUMENT)) == {family.sample_name for family in families}


def test_the_document_has_every_alert_and_no_other() -> None:
    rules = (ROOT / "examples" / "monitoring" / "binlog-alerts.yml").read_text()
    assert re.findall(r"^\| `(Binlog\w+)`", DOCUMENT, re.MULTILINE) == re.findall(r"- alert: (\w+)", rules)


@pytest.mark.slow
def test_the_example_of_the_document_works(tmp_path: Path) -> None:
    [example] = re.findall(r"```python\n(.*?)```", DOCUMENT, re.DOTALL)
    program = (
        f"{example}\nwriter.append(b'one')\n"
        "print(REGISTRY.get_sample_value('binlog_records_total', {'log': 'events'}))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        check=True,
    )
    assert done.stdout == b"1\n"


@pytest.mark.slow
def test_the_command_for_node_exporter_works(tmp_path: Path) -> None:
    [line] = re.findall(r"^\$ (binlog metrics --textfile .*)$", DOCUMENT, re.MULTILINE)
    binlog.Writer(tmp_path / "events").close()
    words = (
        line.replace("/var/lib/node_exporter", str(tmp_path))
        .replace("/var/lib/events", str(tmp_path / "events"))
        .split()
    )
    subprocess.run([sys.executable, "-m", *words], cwd=ROOT, check=True)
    assert (tmp_path / "binlog.prom").read_text().count("binlog_up{") == 1
