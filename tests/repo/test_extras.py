"""Each command of the Makefile starts with the extras that it installs, and needs no others."""

from __future__ import annotations

import re
import subprocess
import sys

import pytest

from tests.support import checkout

pytestmark = pytest.mark.slow

EXTRAS = ("spark", "moving", "seal", "tui", "web", "java", "test", "lint", "wheel", "bench", "docs")

# The import names that differ from the name of their distribution.
IMPORTED_AS = {
    "persist-queue": "persistqueue",
    "pytest-xdist": "xdist",
    "opentelemetry-sdk": "opentelemetry",
    "opentelemetry-proto": "opentelemetry",
    "concurrent-log-handler": "concurrent_log_handler",
    "mkdocs-material": "material",
    "readme-renderer": "readme_renderer",
}

# The commands that install some of the extras.
COMMANDS = (
    *(
        "demo",
        "bench",
        "quick",
        "crash",
        "flips",
        "tamper",
        "seal-memory",
        "canaries",
        "soak",
        "stress",
        "cluster-test",
        "model",
        "commitlog-golden",
        "jpos",
    ),
    *("asan", "ubsan", "tsan", "format-docs"),
)


def modules_of(extra: str) -> set[str]:
    """Return the top-level modules of an extra."""
    names = [re.match(r"[\w-]+", line)[0] for line in checkout.requirements_of(extra)]  # type: ignore[index]
    return {IMPORTED_AS.get(name, name) for name in names}


def without(extras: set[str], program: str) -> subprocess.CompletedProcess[str]:
    """Run a program in a process that cannot import these extras, apart from what the others need too."""
    others = set.union(set(), *map(modules_of, set(EXTRAS) - extras))
    hidden = sorted(set.union(set(), *map(modules_of, extras)) - others)
    # None in sys.modules makes the import statement raise ModuleNotFoundError.
    start = f"import sys; sys.modules.update(dict.fromkeys({hidden}))\n{program}"
    command = [sys.executable, "-c", start]
    return subprocess.run(command, cwd=checkout.ROOT, capture_output=True, text=True, check=False)


def recipe(command: str) -> tuple[set[str], list[str]]:
    """Return the extras that a command of the Makefile installs, and the modules that it runs."""
    printed = subprocess.run(
        ["make", "-n", command, "JPOS_SOURCE=."], cwd=checkout.ROOT, capture_output=True, text=True, check=True
    )
    [extras] = re.findall(r"make_venv\.py(.*)", printed.stdout)
    return set(extras.split()), re.findall(r"-m ((?:stress|tests|binlog)\.[\w.]+)", printed.stdout)


def test_quick_collects_all_tests_without_the_extras_that_it_leaves_out() -> None:
    extras, _ = recipe("quick")
    assert {"spark", "java"}.isdisjoint(extras)
    program = (
        "import pytest; sys.exit(pytest.main(['--collect-only', '-q', '-m', 'not spark and not slow and not install']))"
    )
    done = without(set(EXTRAS) - extras, program)
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr


@pytest.mark.parametrize("command", COMMANDS)
def test_a_command_starts_with_the_extras_that_it_installs(command: str) -> None:
    extras, modules = recipe(command)
    assert modules or command == "quick"
    # A package run with -m is its __main__.
    packages = [name for name in modules if (checkout.ROOT / name.replace(".", "/")).is_dir()]
    mains = [f"{name}.__main__" if name in packages else name for name in modules]
    program = f"import importlib; sys.path.insert(0, '.'); [importlib.import_module(name) for name in {mains}]"
    done = without(set(EXTRAS) - extras, program)
    assert done.returncode == 0, done.stderr


def test_every_command_of_the_makefile_is_tried() -> None:
    text = (checkout.ROOT / "Makefile").read_text()
    [phony] = re.findall(r"^\.PHONY: (.*)$", text, re.MULTILINE)
    # These run none of our modules, or all of them with every extra.
    assert set(phony.split()) - set(COMMANDS) == {"help", "test", "install-test", "lint", "docs", "wheel", "clean"}
