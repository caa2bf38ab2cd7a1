"""Fixtures of the crash tests: the harness's C is compiled once for all tests of a worker."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from stress.crash.preloaded.preload import COMPILED


@pytest.fixture(scope="package", autouse=True)
def _compiled(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(COMPILED, str(tmp_path_factory.mktemp("compiled")))
        yield
