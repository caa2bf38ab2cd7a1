"""pyspark_binlog, which Spark imports to find the source, must be harmless whatever is installed."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.support.checkout import ROOT


def run(program: str) -> list[str]:
    """Run a program in a fresh process, and return the lines it prints."""
    done = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def test_importing_it_imports_nothing_else() -> None:
    program = """
import sys, pyspark_binlog
print(sorted({name.partition(".")[0] for name in sys.modules} & {"binlog", "pyspark", "pyarrow", "cffi"}))
print(hasattr(pyspark_binlog, "Other"))
"""
    assert run(program) == ["[]", "False"]


@pytest.mark.slow
def test_the_package_of_the_pipeline_imports_nothing_optional() -> None:
    program = """
import sys, binlog.spark
print(sorted({name.partition(".")[0] for name in sys.modules} & {"pyspark", "pyarrow", "py4j", "numpy", "pandas"}))
"""
    assert run(program) == ["[]"]


@pytest.mark.spark
def test_the_source_is_found() -> None:
    program = """
import pickle, pyspark_binlog
from pyspark.sql.datasource import DataSource
source = pyspark_binlog.DefaultSource
print(source.name(), issubclass(source, DataSource), pickle.loads(pickle.dumps(source)) is source)
"""
    assert run(program) == ["binlog True True"]


@pytest.mark.spark
@pytest.mark.parametrize(("broken", "named"), [("binlog._codec", "the compiled module"), ("pyarrow", "pyarrow")])
def test_a_source_that_cannot_be_loaded_fails_only_on_use(broken: str, named: str) -> None:
    program = f"""
import sys
sys.modules[{broken!r}] = None  # importing it fails
import pyspark_binlog
from pyspark.sql.datasource import DataSource
source = pyspark_binlog.DefaultSource
print(hasattr(pyspark_binlog, "DefaultSource"), issubclass(source, DataSource), source.name())
try:
    source({{"path": "/log"}})
except ImportError as error:
    print(error)
"""
    first, second = run(program)
    assert first == "True True binlog"
    assert second.startswith("binlog cannot be used here: ")
    assert named in second
    assert f"runs {sys.executable}; " in second
    assert "set PYSPARK_PYTHON" in second
