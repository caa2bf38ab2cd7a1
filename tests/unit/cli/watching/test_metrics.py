"""`binlog metrics`: printed, in a file, and served."""

from __future__ import annotations

import re
import signal
import urllib.request
from pathlib import Path

import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families as parse_openmetrics
from prometheus_client.parser import text_string_to_metric_families as parse_prometheus

import binlog
from binlog.cli.main import main
from tests.support.watched_log import make_watched_log
from tests.unit.cli.run_command import ended, fill, read_line_with, run, started


def test_the_metrics_of_two_logs_are_told_apart(log: Path, capfd: pytest.CaptureFixture[str]) -> None:
    other = log.with_name("other")
    fill(log, [b"one", b"two"])
    fill(other, [b"one"])
    for option, parse in ((), parse_openmetrics), (("--prometheus",), parse_prometheus):
        assert main(["metrics", *option, str(log), str(other)]) == 0
        families = {family.name: family.samples for family in parse(capfd.readouterr().out)}
        [records] = [samples for name, samples in families.items() if name == "binlog_records"]
        assert {sample.labels["log"]: sample.value for sample in records} == {str(log): 2, str(other): 1}


@pytest.mark.slow
def test_an_unreadable_log_has_exit_code_1_and_the_others_are_printed(log: Path) -> None:
    fill(log, [b"one"])
    done = run("metrics", log, log.with_name("none"))
    assert done.returncode == 1
    assert f'binlog_up{{log="{log}"}} 1'.encode() in done.stdout
    assert f'binlog_up{{log="{log}.none"}} 0'.replace("log.none", "none").encode() in done.stdout
    assert done.stderr.startswith(b"binlog: ")
    assert done.stderr.count(b"\n") == 1


def test_a_position_file_elsewhere_is_a_follower(log: Path, capfd: pytest.CaptureFixture[str]) -> None:
    refs = fill(log, [b"one", b"two", b"three"])
    elsewhere = log.with_name("elsewhere")
    elsewhere.write_text(f"{refs[1]}\n")
    assert main(["metrics", "--position", str(elsewhere), str(log)]) == 0
    wanted = f'binlog_follower_lag_records{{log="{log}",follower="{elsewhere}"}} 2'
    assert wanted in capfd.readouterr().out.splitlines()


def test_a_textfile_is_replaced(log: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    fill(log, [b"one"])
    path = tmp_path / "binlog.prom"
    path.write_text("old")
    assert main(["metrics", "--textfile", str(path), str(log)]) == 0
    assert capfd.readouterr().out == ""
    assert {family.name for family in parse_prometheus(path.read_text())} >= {"binlog_up", "binlog_records"}


@pytest.mark.parametrize("ending", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.slow
def test_metrics_are_served_until_a_signal(tmp_path: Path, ending: signal.Signals) -> None:
    log = tmp_path / "log"
    make_watched_log(log)
    with started("metrics", "--listen", "127.0.0.1:0", log) as process:
        line = read_line_with(process.stderr, b"http://").decode()
        found = re.search(r"http://127\.0\.0\.1:\d+/metrics", line)
        assert found is not None
        for count in (30, 31):
            with urllib.request.urlopen(found[0], timeout=30) as answer:
                assert f'binlog_records_total{{log="{log}"}} {count}.0' in answer.read().decode()
            with binlog.Writer(log) as writer:
                writer.append(b"more")
        process.send_signal(ending)
        assert ended(process) == (0, b"")


@pytest.mark.parametrize("address", ["9464", "127.0.0.1", "127.0.0.1:", ":9464", "127.0.0.1:x", "127.0.0.1:65536"])
def test_a_wrong_address_is_refused(log: Path, address: str) -> None:
    fill(log, [b"one"])
    assert main(["metrics", "--listen", address, str(log)]) == 2


@pytest.mark.slow
def test_an_address_in_use_cannot_be_opened(log: Path) -> None:
    fill(log, [b"one"])
    with started("metrics", "--listen", "127.0.0.1:0", log) as process:
        line = read_line_with(process.stderr, b"http://").decode()
        found = re.search(r"127\.0\.0\.1:\d+", line)
        assert found is not None
        done = run("metrics", "--listen", found[0], log)
        assert done.returncode == 3
        assert b"Address already in use" in done.stderr


def test_only_one_output_may_be_chosen(log: Path) -> None:
    fill(log, [b"one"])
    assert main(["metrics", "--prometheus", "--listen", "127.0.0.1:0", str(log)]) == 2
