"""The Spin model of group commit: the correct variants have no error, and seeded bugs are found."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from stress.model import spin
from stress.model.spin_variants import BUGS, BUGS_QUICK, RIGHT, RIGHT_QUICK, Variant


@pytest.mark.slow
def test_the_correct_model_has_no_error_and_a_bug_is_found(tmp_path: Path, figure: Callable[[str], None]) -> None:
    """The variants that take seconds; `make model` searches all of them."""
    if spin.missing() == "spin":
        pytest.skip("spin is not installed")
    for variant in (*RIGHT_QUICK, *BUGS_QUICK):
        result = spin.search(variant, tmp_path)
        figure(f"model, {variant.name}: {result.states:,} states, {result.depth} deep")
        assert variant.is_right(result.found), f'{result.found}; python -m stress.model.spin --trail "{variant.name}"'
        if variant.name == "SYNC_RETRIED":
            steps = spin.explain(variant, tmp_path)
            assert re.search(r"file\.pml:\d+ .*errors_left = \(errors_left-1\)", steps)
            assert "assertion violated" in steps
    with pytest.raises(spin.SpinError, match="max search depth too small"):
        spin.search(RIGHT_QUICK[0], tmp_path, depth_max=100)
    with pytest.raises(spin.SpinError):
        spin.search(Variant("unreadable", "", "WRITERS=None"), tmp_path)


def test_correct_variants_expect_no_finding_and_bugs_expect_one() -> None:
    assert [variant.finds for variant in (*RIGHT_QUICK, *RIGHT)] == [None] * len((*RIGHT_QUICK, *RIGHT))
    assert all(variant.finds for variant in (*BUGS_QUICK, *BUGS))


def test_every_seeded_bug_of_the_model_is_searched() -> None:
    model = "".join(path.read_text() for path in sorted(spin.MODEL.parent.glob("*.pml")))
    switches = {
        name for line in re.findall(r"^#(?:el)?if .*", model, re.MULTILINE) for name in re.findall(r"[A-Z_]{2,}", line)
    }
    bounds = set(re.findall(r"^#ifndef (\w+)", model, re.MULTILINE)) | {"LIVENESS"}
    tried = [variant.name for variant in (*BUGS_QUICK, *BUGS) if variant.name.isupper()]
    assert sorted(tried) == sorted(switches - bounds)
    settings = {
        setting.split("=")[0]
        for variant in (*RIGHT_QUICK, *RIGHT, *BUGS_QUICK, *BUGS)
        for setting in variant.bounds.split()
    }
    assert settings <= bounds | {"VICTIM"}
