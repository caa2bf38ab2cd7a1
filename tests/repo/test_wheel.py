"""`make wheel`: one wheel for Python 3.11 and later, complete, and installable alone; and the source archive."""

from __future__ import annotations

import email
import os
import platform
import re
import shutil
import struct
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest
import readme_renderer.markdown

from tests.support import checkout
from tests.support.pythons import find_python

TESTED_PYTHONS = ["3.11", "3.12", "3.13", "3.14"]

pytestmark = [pytest.mark.install, pytest.mark.xdist_group("wheel")]


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Copy the sources, because a build writes into its tree."""
    tree = tmp_path_factory.mktemp("wheel") / "tree"
    checkout.copy_checkout(tree)
    return tree


def make_wheel(source: Path, dist: Path, *options: str) -> Path:
    """Run the command of `make wheel` in a copy of the sources, and return the path of the wheel."""
    # In our environment, which has the build requirements: nothing is downloaded.
    command = [sys.executable, "native/make_wheel.py", "--dist", str(dist), *options]
    done = subprocess.run(command, cwd=source, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    archive, wheel = map(Path, done.stdout.split())
    assert {archive, wheel} == set(dist.iterdir())
    return wheel


@pytest.fixture(scope="module")
def wheel(source: Path) -> Path:
    return make_wheel(source, source.parent / "dist")


@pytest.fixture(scope="module")
def archive(wheel: Path) -> Path:
    [archive] = wheel.parent.glob("*.tar.gz")
    return archive


def pip(*arguments: str | Path, python: str | Path = sys.executable) -> None:
    done = subprocess.run(
        [python, "-m", "pip", "--quiet", "--disable-pip-version-check", *arguments],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_tag_is_the_limited_api_and_the_glibc_that_auditwheel_finds(wheel: Path) -> None:
    name, _, python, abi, platforms = wheel.stem.split("-")
    assert (name, python, abi) == ("binlog_shared", "cp311", "abi3")
    assert re.fullmatch(rf"manylinux_2_\d+_{platform.machine()}", platforms.split(".")[0])
    shown = subprocess.run(
        [sys.executable, "-m", "auditwheel", "show", wheel], capture_output=True, text=True, check=True
    ).stdout
    assert f'following platform tag: "{platforms.split(".")[0]}"' in " ".join(shown.split())


def test_a_wheel_for_another_processor(source: Path, tmp_path: Path) -> None:
    if shutil.which("aarch64-linux-gnu-gcc") is None or platform.machine() == "aarch64":
        pytest.skip("aarch64-linux-gnu-gcc is not installed")
    wheel = make_wheel(source, tmp_path / "dist", "--platform", "aarch64")
    assert re.search(r"-cp311-abi3-manylinux_2_\d+_aarch64\.whl", wheel.name)
    with zipfile.ZipFile(wheel) as archive:
        # e_machine of the ELF header: 183 is EM_AARCH64.
        machines = [struct.unpack_from("<H", archive.read(name), 18) for name in compiled_modules(archive)]
    assert machines == [(183,), (183,)]


def test_a_missing_cross_compiler_is_named_in_one_line(source: Path, tmp_path: Path) -> None:
    other = "x86_64" if platform.machine() == "aarch64" else "aarch64"
    command = [sys.executable, "native/make_wheel.py", "--dist", str(tmp_path / "dist"), "--platform", other]
    done = subprocess.run(
        command, cwd=source, env={**os.environ, "PATH": ""}, capture_output=True, text=True, check=False
    )
    assert done.returncode == 1
    package = f"gcc-{other.replace('_', '-')}-linux-gnu"
    line = f"binlog: this machine lacks the C compiler {other}-linux-gnu-gcc (Debian package: {package})"
    assert done.stderr.splitlines() == [line]


def test_the_metadata_is_complete_and_the_readme_renders(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        [name] = [name for name in archive.namelist() if name.endswith(".dist-info/METADATA")]
        metadata = email.message_from_bytes(archive.read(name))
    assert metadata["Description-Content-Type"] == "text/markdown"
    page = readme_renderer.markdown.render(metadata.get_payload())
    assert page is not None
    assert re.search(r"<h1[^>]*>binlog<", page)
    assert page.count("<table>") == metadata.get_payload().count("\n| --- |")
    assert set(metadata.get_all("Provides-Extra")) == set(checkout.extras())
    versions = [each.rpartition(" ")[2] for each in metadata.get_all("Classifier") if ":: Python :: 3." in each]
    assert versions == TESTED_PYTHONS[: len(versions)]


def compiled_modules(archive: zipfile.ZipFile) -> list[str]:
    return sorted(name for name in archive.namelist() if name.endswith(".so"))


def test_the_compiled_modules_need_no_particular_python(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        assert compiled_modules(archive) == ["binlog/_codec.abi3.so", "binlog/_native.abi3.so"]


def test_every_module_is_in_the_wheel(source: Path, wheel: Path) -> None:
    patterns = (
        "binlog/**/*.py",
        "binlog/**/*.pyi",
        "binlog/**/py.typed",
        "binlog/web/static/*",
        "pyspark_binlog/**/*.py",
    )
    expected = {str(path.relative_to(source)) for pattern in patterns for path in source.glob(pattern)}
    with zipfile.ZipFile(wheel) as archive:
        packed = {name for name in archive.namelist() if ".dist-info/" not in name and not name.endswith((".so", "/"))}
    assert packed == expected


# Appends, follows in a second process, and acks a message of a group.
SMOKE = """
import subprocess, sys
import binlog

FOLLOW = "import binlog, sys; [print(e.data.decode(), flush=True) for e in binlog.Reader(sys.argv[1]).tail()]"

with binlog.Writer("events") as log:
    log.append(b"one")
    with subprocess.Popen([sys.executable, "-c", FOLLOW, "events"], stdout=subprocess.PIPE, text=True) as follower:
        assert follower.stdout.readline() == "one\\n"
        log.append(b"two")
        assert follower.stdout.readline() == "two\\n"
        follower.kill()
with binlog.ConsumerGroup("events", "workers") as group:
    with group.get(timeout=60) as item:
        print(item.data.decode())
assert binlog.check("events") == []
"""


@pytest.mark.parametrize("version", TESTED_PYTHONS)
def test_the_wheel_installs_into_a_bare_environment_and_works(wheel: Path, tmp_path: Path, version: str) -> None:
    """With its own dependencies, none of which may be missing from the list."""
    base = find_python(version)
    if base is None:
        pytest.skip(f"python{version} is not installed")
    bare = tmp_path / "bare"
    subprocess.run([base, "-E", "-m", "venv", bare], check=True, capture_output=True)
    python = bare / "bin" / "python"
    pip("install", wheel, python=python)
    pip("check", python=python)
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}

    def run(*command: str | Path) -> str:
        done = subprocess.run(
            command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False, timeout=300
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    program = "import binlog; from importlib.metadata import version"
    program += "; print(binlog.__version__, version('binlog-shared'), binlog.__file__)"
    ours, recorded, file = run(python, "-c", program).split()
    assert ours == recorded
    assert Path(file).is_relative_to(bare)
    assert run(python, "-W", "error", "-c", SMOKE) == "one\n"
    assert run(bare / "bin" / "binlog", "check", "events") == "no problems found\n"


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


def test_the_source_archive_is_made_without_a_compiler(source: Path, tmp_path: Path) -> None:
    program = f"import setuptools.build_meta as backend; print(backend.build_sdist({str(tmp_path)!r}))"
    subprocess.run(
        [sys.executable, "-c", program], cwd=source, env=without_a_compiler(), capture_output=True, check=True
    )
    assert len(list(tmp_path.glob("*.tar.gz"))) == 1


def test_the_source_archive_builds_offline(archive: Path, tmp_path: Path) -> None:
    with tarfile.open(archive) as tar:
        tar.extractall(tmp_path, filter="data")
    [tree] = tmp_path.iterdir()
    pip("wheel", "--no-index", "--no-deps", "--no-build-isolation", "--wheel-dir", tmp_path / "wheels", tree)
    [built] = (tmp_path / "wheels").iterdir()
    assert built.name.startswith("binlog_shared-")


def test_another_platform_is_refused_in_one_line(source: Path) -> None:
    program = "import sys, runpy, setuptools; sys.platform = 'darwin'; runpy.run_path('setup.py')"
    done = subprocess.run([sys.executable, "-c", program], cwd=source, capture_output=True, text=True, check=False)
    assert done.returncode != 0
    assert done.stderr.splitlines() == ["binlog runs on Linux only, and this is darwin"]
