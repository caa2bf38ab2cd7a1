"""The commands and the program of docs/audit.md do what the document says."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import binlog
from binlog.cli.main import main
from binlog.seal import stat_seal
from tests.support.checkout import ROOT
from tests.support.waiting import until

TEXT = (ROOT / "docs" / "audit.md").read_text()
_ENVIRONMENT = {**os.environ, "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"}


def _blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", TEXT, re.DOTALL | re.MULTILINE)


def _example(word: str) -> str:
    """Return the program with this word."""
    [found] = [block for block in _blocks("python") if word in block]
    return found


@pytest.mark.slow
def test_the_commands_of_the_audit_document_print_what_it_says(tmp_path: Path) -> None:
    commands = 0
    for block in _blocks("console"):
        for text in block.removeprefix("$ ").split("\n$ "):
            command, *expected = text.rstrip("\n").split("\n")
            done = subprocess.run(
                ["sh", "-c", command], cwd=tmp_path, env=_ENVIRONMENT, stdout=subprocess.PIPE, text=True, check=False
            )
            assert done.stdout.splitlines() == expected, command
            assert done.returncode == (1 if "finding" in text and "0 findings" not in text else 0), command
            commands += 1
    assert commands == 20


@pytest.mark.slow
def test_the_example_waits_for_an_anchor(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("anchor").mkdir()
    binlog.Writer("safe").close()
    assert main(["seal", "init", "safe", "--name", "example.org/safe", "--key", "safe.key"]) == 0
    command = [sys.executable, "-m", "binlog", "seal", "run", "safe", "--key", "safe.key", "--anchor", "dir:anchor"]
    environment = {**_ENVIRONMENT, "PYTHONPATH": str(ROOT)}
    example = [sys.executable, "-c", _example("anchored=1")]
    with subprocess.Popen(command, env=environment) as sealer:
        until(Path("safe/seal/bells").exists)
        done = subprocess.run(example, env=environment, check=False)
        sealer.terminate()
    assert done.returncode == 0
    assert [path.name for path in Path("anchor").iterdir()] == ["example.org_safe.checkpoints"]


@pytest.mark.slow
def test_the_example_of_a_writer_seals(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("anchor").mkdir()
    binlog.Writer("safe").close()
    assert main(["seal", "init", "safe", "--name", "example.org/safe", "--key", "safe.key"]) == 0
    environment = {**_ENVIRONMENT, "PYTHONPATH": str(ROOT)}
    done = subprocess.run([sys.executable, "-c", _example("ElectedSealer")], env=environment, check=False)
    assert done.returncode == 0
    assert stat_seal("safe").size == 1


@pytest.mark.slow
def test_the_program_of_the_audit_document_checks_a_proof(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    log, key = str(tmp_path / "log"), str(tmp_path / "key")
    (tmp_path / "lines").write_text("".join(f"record {number}\n" for number in range(77)))
    assert main(["append", log, str(tmp_path / "lines")]) == 0
    assert main(["seal", "init", log, "--name", "example.org/x", "--key", key]) == 0
    assert main(["seal", "once", log, "--key", key]) == 0
    refs = [line.split()[0] for line in _refs(log, capfd)]
    program = _example("hashlib")
    for number in (0, 1, 63, 64, 75, 76):
        capfd.readouterr()
        assert main(["seal", "prove", log, refs[number]]) == 0
        (tmp_path / "proof").write_text(capfd.readouterr().out)
        for record, is_right in ((f"record {number}", True), (f"record {number + 1}", False)):
            (tmp_path / "record").write_text(record)
            command = [sys.executable, "-c", program, str(tmp_path / "proof"), str(tmp_path / "record")]
            assert subprocess.run(command, check=False).returncode == (0 if is_right else 1)


def _refs(log: str, capfd: pytest.CaptureFixture[str]) -> list[str]:
    capfd.readouterr()
    assert main(["cat", "--template", "{ref}", log]) == 0
    return capfd.readouterr().out.splitlines()
