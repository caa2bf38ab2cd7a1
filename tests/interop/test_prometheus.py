"""Prometheus's own tools accept the metrics, the alert rules and the queries of the dashboard."""

from __future__ import annotations

import json
import re
import shutil
import socket
import subprocess
import sys
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from binlog.metrics import Exposition, expose, log_families, write_textfile
from tests.support.waiting import until
from tests.support.watched_log import make_watched_log

MONITORING = Path(__file__).parents[2] / "examples" / "monitoring"
ALERTS = MONITORING / "binlog-alerts.yml"
DASHBOARD = MONITORING / "binlog-dashboard.json"
LOOPBACK = "127.0.0.1"

# What an alert's series do, in steps of a minute, and the minute at which the alert must fire; before that it must not.
_FIRING = {
    "BinlogUnreadable": ({'binlog_up{log="a"}': "1 0 0 0 0"}, 3),
    "BinlogPoisoned": ({'binlog_poisoned{log="a"}': "0 1 1 1"}, 2),
    "BinlogDiskAlmostFull": (
        {'binlog_filesystem_free_bytes{log="a"}': "50x20", 'binlog_filesystem_size_bytes{log="a"}': "1000x20"},
        10,
    ),
    "BinlogFollowerLags": ({'binlog_follower_lag_seconds{log="a",follower="f"}': "0+100x20"}, 9),
    "BinlogGroupLags": ({'binlog_group_lag_seconds{log="a",group="g"}': "0+100x20"}, 9),
    "BinlogGroupWithoutMembers": (
        {
            'binlog_group_lag_messages{log="a",group="g"}': "5x20",
            'binlog_group_members{log="a",group="g",state="alive"}': "1 1 0 0 0 0 0 0 0 0",
        },
        7,
    ),
    "BinlogDeadLetters": ({'binlog_group_dead_letters_total{log="a",group="g"}': "3 3 4 4"}, 2),
    "BinlogSealCut": ({'binlog_seal_cut{log="a"}': "0 0 1"}, 2),
    "BinlogSealStale": (
        {'binlog_seal_unsealed_records{log="a"}': "5x10", 'binlog_seal_timestamp_seconds{log="a"}': "0x10"},
        4,
    ),
    "BinlogAnchorStale": (
        {
            'binlog_seal_anchor_records_total{log="a",anchor="w"}': "5x20",
            'binlog_seal_records_total{log="a"}': "5+1x20",
            'binlog_seal_anchor_timestamp_seconds{log="a",anchor="w"}': "0x20",
        },
        16,
    ),
    "BinlogMetricsStale": ({'binlog_metrics_timestamp_seconds{instance="i"}': "0x20"}, 11),
}


def _tool(name: str) -> str:
    found = shutil.which(name)
    if found is None:
        pytest.skip(f"{name} is not installed")
    return found


def _rules() -> list[tuple[str, str]]:
    """Return the name and the expression of each alert."""
    text = ALERTS.read_text().replace("expr: >-\n", "expr: ")
    names = re.findall(r"- alert: (\w+)\n", text)
    expressions = re.findall(r"expr: ((?:.+\n)(?:          .+\n)?)", text)
    assert len(names) == len(expressions)
    return [(name, " ".join(each.split())) for name, each in zip(names, expressions, strict=True)]


def _queries() -> list[str]:
    """Return the queries of the dashboard, with values for its variables."""
    panels = json.loads(DASHBOARD.read_text())["panels"]
    return [
        target["expr"].replace("$log", ".*").replace("$__rate_interval", "1m")
        for panel in panels
        for target in panel["targets"]
    ]


def test_every_metric_in_a_rule_or_on_the_dashboard_exists() -> None:
    known = {family.sample_name for family in log_families([])}
    asked = set(re.findall(r"\bbinlog_\w+", " ".join([*(each for _, each in _rules()), *_queries()])))
    assert asked - known == set()
    assert {name for name, _ in _rules()} == _FIRING.keys()


def test_promtool_finds_nothing_to_say_about_the_metrics(tmp_path: Path) -> None:
    promtool = _tool("promtool")
    make_watched_log(tmp_path / "log")
    text = expose(log_families([tmp_path / "log"]), Exposition.PROMETHEUS)
    done = subprocess.run([promtool, "check", "metrics"], check=False, input=text, capture_output=True, text=True)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_each_alert_fires_when_it_should_and_not_before(tmp_path: Path) -> None:
    promtool = _tool("promtool")
    tests = []
    for name, (series, minute) in _FIRING.items():
        [labels] = {key.partition("{")[2] for key in list(series)[:1]}
        found = dict(re.findall(r'(\w+)="([^"]*)"', labels))
        quiet = {"eval_time": f"{minute - 1}m", "alertname": name, "exp_alerts": []}
        fires = {"eval_time": f"{minute}m", "alertname": name, "exp_alerts": [{"exp_labels": found}]}
        inputs = [{"series": key, "values": values} for key, values in series.items()]
        tests.append({"interval": "1m", "input_series": inputs, "alert_rule_test": [quiet, fires]})
    # JSON is YAML, and promtool reads nothing else.  Without annotations it compares them with none.
    bare = tmp_path / "alerts.yml"
    bare.write_text(re.sub(r"        annotations:\n(?:          .+\n)+", "", ALERTS.read_text()))
    program = tmp_path / "test.yml"
    program.write_text(json.dumps({"rule_files": [str(bare)], "evaluation_interval": "1m", "tests": tests}))
    subprocess.run([promtool, "check", "rules", ALERTS], check=True, capture_output=True)
    done = subprocess.run([promtool, "test", "rules", program], check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


def _free_port() -> int:
    with socket.socket() as found:
        found.bind((LOOPBACK, 0))
        return int(found.getsockname()[1])


@contextmanager
def _running(*command: object) -> Iterator[subprocess.Popen[bytes]]:
    process = subprocess.Popen([str(word) for word in command], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        yield process
    finally:
        process.terminate()
        process.wait()


def _get(url: str) -> str | None:
    try:
        with urllib.request.urlopen(url, timeout=30) as answer:
            return str(answer.read().decode())
    except (urllib.error.URLError, ConnectionError):
        return None


@pytest.mark.slow
def test_prometheus_scrapes_a_log_and_answers_every_query(tmp_path: Path) -> None:
    prometheus = _tool("prometheus")
    log, ours, theirs = tmp_path / "log", _free_port(), _free_port()
    make_watched_log(log)
    config = tmp_path / "prometheus.yml"
    config.write_text(
        json.dumps(
            {
                "global": {"scrape_interval": "1s"},
                "scrape_configs": [{"job_name": "binlog", "static_configs": [{"targets": [f"{LOOPBACK}:{ours}"]}]}],
            }
        )
    )
    web = f"http://{LOOPBACK}:{theirs}"

    def ask(expression: str) -> dict[str, Any]:
        answer = _get(f"{web}/api/v1/query?query={urllib.parse.quote(expression)}")
        return {} if answer is None else dict(json.loads(answer))

    serving = (sys.executable, "-m", "binlog", "metrics", "--listen", f"{LOOPBACK}:{ours}", log)
    options = (f"--config.file={config}", f"--storage.tsdb.path={tmp_path / 'data'}")
    with _running(*serving), _running(prometheus, *options, f"--web.listen-address={LOOPBACK}:{theirs}"):
        until(lambda: bool(ask("binlog_records_total").get("data", {}).get("result")))
        [found] = ask("binlog_records_total")["data"]["result"]
        assert (found["metric"]["log"], found["value"][1]) == (str(log), "30")
        for expression in [*(each for _, each in _rules()), *_queries()]:
            assert ask(expression)["status"] == "success", expression
        # Plain values, without a rate, have a result for each query of the dashboard.
        for expression in _queries():
            if "rate(" not in expression and "increase(" not in expression and "staged" not in expression:
                assert ask(expression)["data"]["result"], expression


@pytest.mark.slow
def test_node_exporter_serves_the_textfile(tmp_path: Path) -> None:
    exporter = _tool("prometheus-node-exporter")
    make_watched_log(tmp_path / "log")
    folder = tmp_path / "textfiles"
    folder.mkdir()
    write_textfile(folder / "binlog.prom", log_families([tmp_path / "log"]))
    port = _free_port()
    options = ("--collector.disable-defaults", "--collector.textfile", f"--collector.textfile.directory={folder}")
    with _running(exporter, *options, f"--web.listen-address={LOOPBACK}:{port}"):
        url = f"http://{LOOPBACK}:{port}/metrics"
        until(lambda: _get(url) is not None)
        text = _get(url)
        assert text is not None
        assert "node_textfile_scrape_error 0" in text
        for line in (folder / "binlog.prom").read_text().splitlines():
            name = line.split("{")[0].split(" ")[0]
            assert line.startswith("#") or f"\n{name}" in text
