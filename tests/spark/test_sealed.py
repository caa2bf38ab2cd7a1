"""Spark appends to a sealed log, by copying and by files, while a sealer runs and the log is verified: no finding."""

from __future__ import annotations

import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

from binlog import Writer
from binlog.seal import Sealer, SigningKey, begin_seal, parse_anchor, verify
from tests.support.checkout import ROOT
from tests.support.logs import read_all

pytestmark = [pytest.mark.spark, pytest.mark.xdist_group("spark")]

KEY = SigningKey.generate("example.org/audit")
_BATCHES, _RECORDS = 8, 1000


@pytest.mark.slow
def test_what_spark_appends_to_a_sealed_log_is_sealed_without_a_finding(spark: Any, log: Path, tmp_path: Path) -> None:
    anchored, key_path = tmp_path / "anchor", tmp_path / "key"
    anchored.mkdir()
    KEY.save(key_path)
    place = parse_anchor(f"dir:{anchored}")
    with Writer(log) as writer:
        writer.append(b"first")
    begin_seal(log, KEY)
    with Sealer(log, KEY, anchors=[place]) as first:
        first.seal()
        first.anchor()
    found: list[str] = []
    runs, done = 0, threading.Event()

    def verify_again_and_again() -> None:
        nonlocal runs
        while not done.is_set():
            latest = place.latest(KEY.verifier.name)
            assert latest is not None
            found.extend(map(str, verify(log, str(KEY.verifier), checkpoints=[latest]).findings))
            runs += 1

    command = [sys.executable, "-m", "binlog", "seal", "run", str(log), "--key", str(key_path), "--every", "0.05s"]
    with subprocess.Popen([*command, "--anchor", place.name], cwd=ROOT, stderr=subprocess.PIPE) as sealer:
        verifying = threading.Thread(target=verify_again_and_again)
        verifying.start()
        try:
            for batch in range(_BATCHES):
                rows = spark.range(batch * _RECORDS, (batch + 1) * _RECORDS, 1, 2)
                frame = rows.selectExpr("cast(id AS string) AS value")
                # The output of every second batch becomes files of the log, and that of the others is copied.
                options = {"minFileBytes": "1"} if batch % 2 else {}
                frame.write.format("binlog").mode("append").options(**options).save(str(log))
        finally:
            done.set()
            verifying.join()
            sealer.terminate()
        assert sealer.communicate()[1] == b""
    assert found == []
    assert runs > 1
    records = read_all(log)
    assert sorted(records[1:], key=int) == [b"%d" % number for number in range(_BATCHES * _RECORDS)]
    report = verify(log, str(KEY.verifier))
    assert (report.findings, report.verified, report.unsealed) == ([], len(records), 0)
