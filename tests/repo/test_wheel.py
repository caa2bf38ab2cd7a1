"""The wheel: one for Python 3.11 and later, complete, and installable alone."""

from __future__ import annotations

import os
import subprocess
import sys
import venv
import zipfile
from pathlib import Path

import pytest

from tests.support import checkout

pytestmark = [pytest.mark.install, pytest.mark.xdist_group("wheel")]


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Copy the sources, because a build writes into its tree."""
    tree = tmp_path_factory.mktemp("wheel") / "tree"
    checkout.copy_checkout(tree)
    return tree


@pytest.fixture(scope="module")
def wheel(source: Path) -> Path:
    built = source.parent / "wheels"
    # Without isolation: the build requirements are in our environment, and are not downloaded again.
    pip("wheel", "--no-deps", "--no-build-isolation", "--wheel-dir", built, source)
    [wheel] = built.iterdir()
    return wheel


def pip(*arguments: str | Path, python: str | Path = sys.executable) -> None:
    done = subprocess.run(
        [python, "-m", "pip", "--quiet", "--disable-pip-version-check", *arguments],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_tag_says_limited_api_and_linux(wheel: Path) -> None:
    name, _, python, abi, platform = wheel.stem.split("-")
    assert (name, python, abi) == ("binlog_shared", "cp311", "abi3")
    assert platform.startswith("linux_")


def test_the_compiled_modules_need_no_particular_python(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        compiled = [name for name in archive.namelist() if name.endswith(".so")]
    assert sorted(compiled) == ["binlog/_codec.abi3.so", "binlog/_native.abi3.so"]


def test_every_module_is_in_the_wheel(source: Path, wheel: Path) -> None:
    patterns = ("binlog/**/*.py", "binlog/**/*.pyi", "binlog/**/py.typed", "pyspark_binlog/**/*.py")
    expected = {str(path.relative_to(source)) for pattern in patterns for path in source.glob(pattern)}
    with zipfile.ZipFile(wheel) as archive:
        packed = {name for name in archive.namelist() if ".dist-info/" not in name and not name.endswith(".so")}
    assert packed == expected


def test_the_wheel_installs_into_a_clean_environment_and_works(wheel: Path, tmp_path: Path) -> None:
    """With its own dependencies, none of which may be missing from the list."""
    clean = tmp_path / "clean"
    venv.create(clean, with_pip=True)
    python = clean / "bin" / "python"
    pip("install", wheel, python=python)
    program = "import binlog; from importlib.metadata import version"
    program += "; print(binlog.__version__, version('binlog-shared'), binlog.__file__)"
    done = subprocess.run([python, "-c", program], cwd=tmp_path, capture_output=True, text=True, check=True)
    ours, recorded, file = done.stdout.split()
    assert ours == recorded
    assert Path(file).is_relative_to(clean)
    subprocess.run([clean / "bin" / "binlog", "--help"], cwd=tmp_path, capture_output=True, check=True)


def without_a_compiler() -> dict[str, str]:
    return {**os.environ, "CC": "no-such-compiler"}


@pytest.mark.parametrize("how", [["wheel"], ["install", "--editable"]], ids=["wheel", "editable"])
def test_without_a_compiler_pip_prints_one_line_of_ours(source: Path, tmp_path: Path, how: list[str]) -> None:
    options = ["--no-deps", "--no-build-isolation", "--disable-pip-version-check"]
    done = subprocess.run(
        [sys.executable, "-m", "pip", *how, str(source), *options],
        cwd=tmp_path,
        env=without_a_compiler(),
        capture_output=True,
        text=True,
        check=False,
    )
    said = done.stdout + done.stderr
    assert done.returncode != 0
    assert "[1 lines of output]" in said
    assert "binlog: this machine lacks the C compiler no-such-compiler (Debian package: gcc)\n" in said


def test_the_source_archive_is_made_without_a_compiler_and_builds(source: Path, tmp_path: Path) -> None:
    program = f"import setuptools.build_meta as backend; print(backend.build_sdist({str(tmp_path)!r}))"
    subprocess.run(
        [sys.executable, "-c", program], cwd=source, env=without_a_compiler(), capture_output=True, check=True
    )
    [archive] = tmp_path.glob("*.tar.gz")
    pip("wheel", "--no-deps", "--no-build-isolation", "--wheel-dir", tmp_path / "wheels", archive)
    assert len(list((tmp_path / "wheels").iterdir())) == 1


def test_another_platform_is_refused_in_one_line(source: Path) -> None:
    program = "import sys, runpy, setuptools; sys.platform = 'darwin'; runpy.run_path('setup.py')"
    done = subprocess.run([sys.executable, "-c", program], cwd=source, capture_output=True, text=True, check=False)
    assert done.returncode != 0
    assert done.stderr.splitlines() == ["binlog runs on Linux only, and this is darwin"]
