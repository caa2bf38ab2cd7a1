"""The software of the cluster's machines: Spark, and a Python environment with our wheel."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import os
import re
import shutil
import subprocess
import sys
import venv
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from binlog.spark.java import find_java_home

_ROOT = Path(__file__).resolve().parents[2]
_COPIED = ("binlog", "pyspark_binlog", "native", "setup.py", "pyproject.toml", "README.md", "LICENSE")
_NOT_COPIED = ("__pycache__", "*.so")

OTHER_VERSION = "0.0.0"


class InstallationError(Exception):
    """A build or an installation failed."""


@dataclass(frozen=True)
class Installation:
    """The software that all machines share.

    python: of the environment.  packages: its site-packages.  other: a folder with the same packages under another
    version number.
    """

    python: Path
    packages: Path
    other: Path
    spark_home: Path
    java_home: Path

    def environment(self, home: Path, **more: str) -> Mapping[str, str]:
        """Return all variables for a process with the folder `home`; none are inherited from this process."""
        return {
            # Executors start the first `python3` on their path.
            "PATH": f"{self.python.parent}:/usr/bin:/bin",
            "HOME": str(home),
            "LANG": "C.UTF-8",
            "TMPDIR": str(home),
            "JAVA_HOME": str(self.java_home),
            "SPARK_HOME": str(self.spark_home),
            "SPARK_LOCAL_DIRS": str(home),
            # Otherwise Spark resolves this machine's host name, which may have no address.
            "SPARK_LOCAL_IP": "127.0.0.1",
            "SPARK_PUBLIC_DNS": "127.0.0.1",
            "SPARK_DAEMON_MEMORY": "256m",
            "SPARK_DAEMON_JAVA_OPTS": f"-Djava.io.tmpdir={home}",
            **more,
        }

    def spark_path(self) -> str:
        """The PYTHONPATH to PySpark in Spark's own folder, as spark-submit sets it."""
        return os.pathsep.join(map(str, sorted((self.spark_home / "python" / "lib").glob("*.zip"))))


def install(folder: Path) -> Installation:
    """Build the wheel of this checkout and install it, with its requirements and those of HTTP.

    Raises: InstallationError; StateError if there is no Java for Spark.
    """
    wheel = _build(folder / "build")
    environment = folder / "environment"
    venv.create(environment, with_pip=False, symlinks=True)
    python = environment / "bin" / "python3"
    # Use the PyArrow of this environment, so that it need not be downloaded again.
    arrow = f"pyarrow=={importlib.metadata.version('pyarrow')}"
    _pip("--python", python, "install", wheel, arrow, "fsspec", "aiohttp")
    other = folder / "other"
    # Without bytecode: that of a source with equal size and time would be used for the changed source.
    _pip("install", "--no-deps", "--no-compile", "--target", other, wheel)
    source = other / "binlog" / "__init__.py"
    source.write_text(
        re.sub(r'^__version__ = ".*"$', f'__version__ = "{OTHER_VERSION}"', source.read_text(), flags=re.MULTILINE)
    )
    found = importlib.util.find_spec("pyspark")
    if found is None or found.origin is None:
        raise InstallationError("PySpark is not installed")
    [packages] = environment.glob("lib/python*/site-packages")
    return Installation(python, packages, other, Path(found.origin).parent, find_java_home())


def _build(folder: Path) -> Path:
    """Build the wheel in a copy of the checkout, because a build writes into its tree."""
    tree = folder / "tree"
    tree.mkdir(parents=True)
    for name in _COPIED:
        source = _ROOT / name
        if source.is_dir():
            shutil.copytree(source, tree / name, ignore=shutil.ignore_patterns(*_NOT_COPIED))
        else:
            shutil.copy(source, tree / name)
    _pip("wheel", "--no-deps", "--no-build-isolation", "--no-cache-dir", "--wheel-dir", folder, tree)
    [wheel] = folder.glob("*.whl")
    return wheel


def _pip(*arguments: str | Path) -> None:
    command = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--quiet", *map(str, arguments)]
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    if done.returncode:
        output = (done.stderr.strip() or done.stdout.strip() or "no output").splitlines()
        raise InstallationError(f"pip {arguments[0]} failed: {output[-1]}")
