"""`binlog completion` in the real shells: commands, options, directories and numbers of files are completed."""

from __future__ import annotations

import os
import pty
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from binlog.cli.main import main
from tests.unit.cli.run_command import ENVIRONMENT, Stream, fill, run

_PATH = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
_STARTS = {
    "bash": ["bash", "--norc", "--noprofile", "-i"],
    "zsh": ["zsh", "-f", "-i"],
}
_PREPARATIONS = {
    "bash": "bind 'set bell-style none'; PS1='> '; ",
    "zsh": "unsetopt beep prompt_sp zle_bracketed_paste; PS1='> '; autoload -U compinit; compinit -u -D; ",
}


def _need(shell: str) -> None:
    if shutil.which(shell) is None:
        pytest.skip(f"{shell} is not installed")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with a log of three files, another folder, and a file."""
    fill(tmp_path / "events", [b"one"], [b"two"], [b"three"])
    (tmp_path / "evening").mkdir()
    (tmp_path / "every.txt").touch()
    return tmp_path


@contextmanager
def _prompt(shell: str, folder: Path) -> Iterator[Stream]:
    """Start a shell on a terminal, with the completion loaded."""
    own, other = pty.openpty()
    environment = {**ENVIRONMENT, "PATH": _PATH, "HOME": str(folder), "TERM": "dumb", "HISTFILE": "/dev/null"}
    process = subprocess.Popen(
        _STARTS[shell], cwd=folder, env=environment, stdin=other, stdout=other, stderr=other, start_new_session=True
    )
    os.close(other)
    stream = Stream(own)
    try:
        # The shell prints what is typed, so the text to wait for is not typed as it is.
        os.write(own, f"{_PREPARATIONS[shell]}eval \"$(binlog completion {shell})\"; echo load''ed\n".encode())
        stream.read_until(b"loaded\r\n")
        yield stream
    finally:
        process.kill()
        process.wait()
        os.close(own)


def _expect(stream: Stream, typed: str, completed: str) -> None:
    """Type words and a tab, and wait for the text that the shell adds; then clear the line."""
    os.write(stream.fd, f"{typed}\t".encode())
    stream.read_until(typed.rsplit(maxsplit=1)[-1].encode())
    stream.read_until(completed.encode())
    os.write(stream.fd, b"\x15")


@pytest.mark.slow
@pytest.mark.parametrize("shell", ["bash", "zsh"])
def test_a_shell_completes_commands_options_directories_and_numbers(shell: str, folder: Path) -> None:
    _need(shell)
    with _prompt(shell, folder) as stream:
        _expect(stream, "binlog mon", "itor")
        _expect(stream, "binlog tail --fol", "low")
        _expect(stream, "binlog tail events --posit", "ion")
        _expect(stream, "binlog tail eveni", "ng")
        _expect(stream, "binlog cat events --from 3", ":256")
        (folder / "events" / "00000001.dat").unlink()
        (folder / "events" / "00000002.dat").unlink()
        _expect(stream, "binlog cat events --file ", "3")


@pytest.mark.slow
def test_fish_completes_commands_options_directories_and_numbers(folder: Path) -> None:
    _need("fish")
    script = run("completion", "fish").stdout.decode()
    for typed, completions in (
        ("binlog mon", {"monitor"}),
        ("binlog tail --fol", {"--follow"}),
        ("binlog tail eve", {"events/", "evening/"}),
        ("binlog cat events --file ", {"1", "2", "3"}),
        ("binlog cat events --from ", {"beginning", "1:256", "2:256", "3:256"}),
        ("binlog cat events --level err", {"error"}),
    ):
        done = subprocess.run(
            ["fish", "--no-config", "-c", f"{script}\ncomplete -C '{typed}'"],
            cwd=folder, env={**ENVIRONMENT, "PATH": _PATH, "HOME": str(folder)}, capture_output=True, check=False,
        )  # fmt: skip
        assert {line.split("\t")[0] for line in done.stdout.decode().splitlines()} == completions, (typed, done.stderr)


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_script_of_a_shell_is_printed(shell: str, capfd: pytest.CaptureFixture[str]) -> None:
    assert main(["completion", shell]) == 0
    assert f"_BINLOG_COMPLETE={shell}_complete" in capfd.readouterr().out


def _completed(words: str, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> list[str]:
    monkeypatch.setenv("_BINLOG_COMPLETE", "bash_complete")
    monkeypatch.setenv("COMP_WORDS", words)
    monkeypatch.setenv("COMP_CWORD", str(words.count(" ")))
    assert main([]) == 0
    return capfd.readouterr().out.split()


def test_words_are_completed(folder: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> None:
    log = folder / "events"
    for words, found in (
        ("binlog ta", ["plain,tail"]),
        ("binlog journal st", ["plain,stat"]),
        ("binlog group dead re", ["plain,retry"]),
        ("binlog tail x", ["dir,x"]),
        (f"binlog cat {log} --file ", ["plain,1", "plain,2", "plain,3"]),
        (f"binlog cutover {log} --expected ", ["plain,1", "plain,2", "plain,3"]),
        (f"binlog tail {log} --from e", ["plain,end"]),
        (f"binlog tail {folder} --from 1", []),
    ):
        assert _completed(words, monkeypatch, capfd) == found
    monkeypatch.setenv("BINLOG_DIR", str(log))
    assert _completed("binlog cat --file 2", monkeypatch, capfd) == ["plain,2"]
