"""The commands of docs/recipes.md print the lines that the document shows, and its other claims hold."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import binlog
from tests.support.checkout import ROOT, copy_checkout

TEXT = (ROOT / "docs" / "recipes.md").read_text()
_ENVIRONMENT = {**os.environ, "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"}


def _block(language: str) -> list[str]:
    blocks = re.findall(rf"^```{language}\n(.*?)^```", TEXT, re.DOTALL | re.MULTILINE)
    return [line for block in blocks for line in block.splitlines()]


def _run(command: str, folder: Path, **environment: str) -> list[str]:
    done = subprocess.run(
        ["sh", "-c", command], cwd=folder, env={**_ENVIRONMENT, **environment},
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False,
    )  # fmt: skip
    return done.stdout.splitlines()


@pytest.mark.slow
def test_the_commands_of_the_recipes_print_what_the_document_says(tmp_path: Path) -> None:
    found: list[tuple[str, list[str]]] = []
    for line in _block("console"):
        if line.startswith("$ "):
            found.append((line[2:], []))
        else:
            found[-1][1].append(line)
    assert len(found) > 15
    for command, expected in found:
        assert _run(command, tmp_path) == expected, command
    assert binlog.check(tmp_path / "orders") == binlog.check(tmp_path / "other" / "orders") == []


@pytest.mark.slow
def test_the_crontab_archives_and_prunes(tmp_path: Path) -> None:
    log = tmp_path / "orders"
    with binlog.Writer(log) as writer:
        for number in range(5):
            writer.append(b"%d" % number)
            writer.cutover()
    archive, prune = (line.split(maxsplit=5)[5].replace("/var/lib/shop/orders", str(log)) for line in _block("crontab"))
    _run(archive, tmp_path)
    assert sorted(path.name for path in log.glob("*.zst")) == [f"{number:08d}.dat.zst" for number in (1, 2, 3)]
    assert _run(prune, tmp_path) == ["removed 0 files, 0 B on disk"]
    assert binlog.check(log) == []


@pytest.mark.slow
def test_docker_knows_the_options_of_the_recipes(tmp_path: Path) -> None:
    """No daemon is asked: a wrong option is an error before that."""
    if not shutil.which("docker"):
        pytest.skip("docker is not installed")
    shutil.copytree(ROOT / "examples", tmp_path / "examples")
    (tmp_path / "orders.jsonl").touch()
    commands = _block("docker")
    assert len(commands) == 5
    for command in commands:
        said = _run(command, tmp_path, DOCKER_HOST="unix:///nonexistent/docker", DOCKER_CONFIG=str(tmp_path))
        assert any("annot connect to the Docker daemon" in line for line in said), (command, said)
    wrong = commands[-1].replace("--rm", "--wrong")
    assert "unknown flag: --wrong" in _run(wrong, tmp_path, DOCKER_CONFIG=str(tmp_path))[0]


@pytest.mark.install
@pytest.mark.xdist_group("wheel")
def test_the_commands_of_the_dockerfile_install_binlog(tmp_path: Path) -> None:
    """Its steps for the package, in a fresh environment in place of an image."""
    copy_checkout(tmp_path / "context")
    subprocess.run([sys.executable, "-m", "venv", tmp_path / "venv"], check=True)
    path = f"{tmp_path}/venv/bin:/usr/bin:/bin"
    steps = 0
    for line in (ROOT / "examples" / "Dockerfile").read_text().splitlines():
        word, _, rest = line.partition(" ")
        rest = rest.replace("/checkout", f"{tmp_path}/checkout").replace("/wheels", f"{tmp_path}/wheels")
        if word == "COPY" and "--from" not in rest:
            *sources, target = shlex.split(rest)
            if target.endswith("/"):  # as Docker does: into a folder, or, of a folder, the content
                os.makedirs(target, exist_ok=True)
            subprocess.run(["cp", "--recursive", *sources, target], cwd=tmp_path / "context", check=True)
        elif word == "RUN" and rest.startswith("pip "):
            subprocess.run(["sh", "-c", rest], env={**os.environ, "PATH": path}, check=True)
            steps += 1
    assert steps == 2
    program = [tmp_path / "venv" / "bin" / "binlog", "append", tmp_path / "log"]
    subprocess.run(program, input=b"x\n", check=True, cwd=tmp_path)


_BEGIN_SEAL = "binlog seal init orders --name example.org/orders --key key > vkey"
_SEAL = "binlog seal once orders --key key > note"
_VERIFY = "binlog seal verify orders --vkey vkey --checkpoint note | tail -n 1"


@pytest.mark.slow
def test_a_moved_log_keeps_its_seal(tmp_path: Path) -> None:
    _run(f"echo 1 | binlog append -q orders && {_BEGIN_SEAL} && {_SEAL}", tmp_path)
    _run("tar -cf orders.tar orders && rm -r orders && tar -xpf orders.tar", tmp_path)
    assert _run(_VERIFY, tmp_path) == ["1 record of 1 compared, 0 not sealed yet; 0 findings"]


@pytest.mark.slow
def test_the_seal_of_a_restored_log_says_what_is_lost(tmp_path: Path) -> None:
    _run(f"echo 1 | binlog append -q orders && {_BEGIN_SEAL} && {_SEAL}", tmp_path)
    _run(f"binlog backup orders orders.backup && echo 2 | binlog append -q orders && {_SEAL}", tmp_path)
    _run("mv orders orders.broken && cp -a orders.backup orders && cp -a orders.broken/seal orders/", tmp_path)
    _run("binlog cutover orders && echo 3 | binlog append -q orders", tmp_path)
    said = _run("binlog seal once orders --key key", tmp_path)[-1]
    assert said == "binlog: orders differs from its seal: records from 1 to 2 are missing or changed"
    _run(f"binlog seal accept-loss orders --key key --why 'restored from a backup' && {_SEAL}", tmp_path)
    assert _run(_VERIFY, tmp_path)[-1].endswith("0 findings")
