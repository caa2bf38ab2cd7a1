"""native/make_venv.py and native/check_machine.py: the changes that they notice, without installing anything."""

from __future__ import annotations

import importlib.util
import sys
import sysconfig
from pathlib import Path
from types import ModuleType

import pytest

from tests.support import checkout


@pytest.fixture
def make_venv(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """Return the module, working on a separate checkout with a working .venv."""
    monkeypatch.syspath_prepend(checkout.ROOT / "native")
    import make_venv

    files = ("pyproject.toml", "setup.py", "native/build_native.py", "native/a.c", "binlog/_native.abi3.so")
    for name in files:
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(f"this is {name}")
    venv = tmp_path / ".venv"
    (venv / "bin").mkdir(parents=True)
    (venv / "bin" / "python").symlink_to(sys.executable)
    constants = {
        "ROOT": tmp_path,
        "VENV": venv,
        "PYTHON": venv / "bin" / "python",
        "STATE": venv / "state.json",
        "LOG": venv / "install.log",
        "PROJECT": tmp_path / "pyproject.toml",
    }
    for name, value in constants.items():
        monkeypatch.setattr(make_venv, name, value)
    monkeypatch.setattr(make_venv, "_python_works", lambda: True)
    return make_venv


def ready(make_venv: ModuleType, *extras: str) -> None:
    """Write the state in which nothing is to be done for some extras."""
    make_venv.State(
        root=str(make_venv.ROOT),
        extras=list(extras),
        requirements=make_venv._hash(make_venv.PROJECT),
        native=make_venv._native_hash(),
        java=make_venv._java_places(),
    ).save()


def steps(make_venv: ModuleType, *extras: str) -> list[str]:
    """Return the names of the remaining steps; "new" means all of them."""
    state = make_venv.State.load()
    return [step.__name__ for step in make_venv._steps(state, set(extras))] if state else ["new"]


def test_nothing_is_done_if_everything_exists(make_venv: ModuleType, capfd: pytest.CaptureFixture[str]) -> None:
    ready(make_venv, "test", "spark")
    before = make_venv.STATE.stat().st_mtime_ns
    assert make_venv.main({"test"}) == 0
    assert make_venv.main({"spark"}) == 0
    assert capfd.readouterr() == ("", "")
    assert make_venv.STATE.stat().st_mtime_ns == before


@pytest.mark.parametrize("name", ["native/a.c", "native/build_native.py", "setup.py", "native/new.h"])
def test_a_changed_source_is_built_again(make_venv: ModuleType, name: str) -> None:
    ready(make_venv, "test")
    (make_venv.ROOT / name).write_text("changed")
    assert steps(make_venv, "test") == ["_build"]


def test_a_removed_module_is_built_again(make_venv: ModuleType) -> None:
    ready(make_venv, "test")
    (make_venv.ROOT / "binlog" / "_native.abi3.so").unlink()
    assert steps(make_venv, "test") == ["_build"]


def test_changed_requirements_are_installed_and_built_with(make_venv: ModuleType) -> None:
    ready(make_venv, "test")
    make_venv.PROJECT.write_text("changed")
    assert steps(make_venv, "test") == ["_install_requirements", "_build"]


def test_another_extra_is_installed(make_venv: ModuleType) -> None:
    ready(make_venv, "test")
    assert steps(make_venv, "test", "lint") == ["_install_requirements"]


def test_java_is_searched_again_if_it_may_have_changed(make_venv: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    ready(make_venv, "test", "spark")
    monkeypatch.setenv("JAVA_HOME", "/elsewhere")
    assert steps(make_venv, "spark") == ["_find_java"]
    assert steps(make_venv, "test") == []


def test_an_interrupted_environment_is_made_again(make_venv: ModuleType) -> None:
    assert steps(make_venv, "test") == ["new"]
    make_venv.STATE.write_text('{"root": ')
    assert steps(make_venv, "test") == ["new"]
    make_venv.STATE.write_text('{"from": "another version"}')
    assert steps(make_venv, "test") == ["new"]


def test_a_moved_environment_is_made_again(make_venv: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    ready(make_venv, "test")
    monkeypatch.setattr(make_venv, "ROOT", make_venv.ROOT / "elsewhere")
    assert steps(make_venv, "test") == ["new"]


def test_an_environment_without_its_python_is_made_again(
    make_venv: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    ready(make_venv, "test")
    monkeypatch.undo()
    python = Path(make_venv.ROOT)  # the real one again
    assert python == checkout.ROOT
    monkeypatch.setattr(make_venv, "PYTHON", Path("/nonexistent/python"))
    assert not make_venv._python_works()


def test_an_interruption_leaves_no_state_and_a_failure_does(
    make_venv: ModuleType, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    def interrupt(state: object, extras: object) -> None:
        raise KeyboardInterrupt

    def fail(state: object, extras: object) -> None:
        raise make_venv.SetUpError("it failed")

    monkeypatch.setattr(make_venv.check_machine, "missing", lambda: None)
    for step, code, remains in ((fail, 1, True), (interrupt, 130, False)):
        ready(make_venv, "test")
        monkeypatch.setattr(make_venv, "_install_requirements", step)
        assert make_venv.main({"lint"}) == code
        assert make_venv.STATE.exists() is remains
    assert capfd.readouterr().err == "binlog: it failed\n"


RETRYING = "WARNING: Retrying (Retry(total=0)) after connection broken by 'NoRoute('<an object>: x: y')': /simple/it/\n"


@pytest.mark.parametrize(
    ("said", "gist"),
    [
        (RETRYING + "ERROR: No matching distribution found", "the package index does not answer: NoRoute('x: y')"),
        (RETRYING + "ERROR: Failed to build it", "ERROR: Failed to build it"),
        ("WARNING: hm\nERROR: No space left on device\n\n", "ERROR: No space left on device"),
        ("something else\nlast\n", "last"),
        ("", "it printed nothing"),
    ],
)
def test_the_line_of_pip_that_is_shown(make_venv: ModuleType, said: str, gist: str) -> None:
    assert make_venv._gist(said) == gist


@pytest.fixture
def check_machine(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(checkout.ROOT / "native")
    import check_machine

    return check_machine


@pytest.mark.slow
def test_this_machine_lacks_nothing(check_machine: ModuleType) -> None:
    assert check_machine.missing() is None


@pytest.mark.slow
def test_a_missing_venv_module_is_named(check_machine: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == "ensurepip" else object())
    assert "(Debian package: python3-venv)" in check_machine.missing()


def test_missing_headers_are_named(check_machine: ModuleType, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(sysconfig, "get_path", lambda name: str(tmp_path))
    assert check_machine.missing() == (
        f"this machine lacks Python's C header {tmp_path}/Python.h (Debian package: python3-dev)"
    )


@pytest.mark.slow
def test_pip_needs_no_venv_to_compile(check_machine: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    assert check_machine.missing_to_compile() is None


def test_everything_that_is_missing_is_named_at_once(
    check_machine: ModuleType, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(sysconfig, "get_path", lambda name: str(tmp_path))
    monkeypatch.setenv("CC", "no-such-compiler -O2")
    line = check_machine.missing()
    assert "the C compiler no-such-compiler (Debian package: gcc), and Python's C header" in line
    assert "\n" not in line


def test_a_compiler_that_cannot_build_says_why(
    check_machine: ModuleType, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "Python.h").write_text("#include <no_such_header_of_libc.h>\n")
    monkeypatch.setattr(sysconfig, "get_path", lambda name: str(tmp_path))
    line = check_machine.missing()
    assert "no_such_header_of_libc.h" in line
    assert "\n" not in line
