"""The model of group commit: the right one has no error, and every planted mistake is found."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from stress.model import spin
from stress.model.spin_variants import MISTAKES, MISTAKES_QUICK, RIGHT, RIGHT_QUICK, Variant


def _named(variants: tuple[Variant, ...]) -> pytest.MarkDecorator:
    """The first is among the quick tests."""
    first, *others = (pytest.param(variant, id=variant.name) for variant in variants)
    slow = [pytest.param(*param.values, id=param.id, marks=pytest.mark.slow) for param in others]
    return pytest.mark.parametrize("variant", [first, *slow])


@pytest.fixture
def installed() -> None:
    if spin.missing() == "spin":
        pytest.skip("spin is not installed")


def _hold(variant: Variant, directory: Path, figure: Callable[[str], None]) -> None:
    result = spin.search(variant, directory)
    figure(f"model, {variant.name}: {result.states:,} states, {result.depth} deep")
    assert variant.is_right(result.found), f'{result.found}; python -m stress.model.spin --trail "{variant.name}"'


@_named((*RIGHT_QUICK, *RIGHT))
@pytest.mark.usefixtures("installed")
def test_the_right_model_has_no_error(variant: Variant, tmp_path: Path, figure: Callable[[str], None]) -> None:
    assert variant.finds is None
    _hold(variant, tmp_path, figure)


@_named((*MISTAKES_QUICK, *MISTAKES))
@pytest.mark.usefixtures("installed")
def test_a_planted_mistake_is_found(variant: Variant, tmp_path: Path, figure: Callable[[str], None]) -> None:
    assert variant.finds
    _hold(variant, tmp_path, figure)


@pytest.mark.usefixtures("installed")
def test_what_was_found_can_be_followed_step_by_step(tmp_path: Path) -> None:
    (variant,) = (variant for variant in MISTAKES_QUICK if variant.name == "SYNC_RETRIED")
    spin.search(variant, tmp_path)
    steps = spin.explain(variant, tmp_path)
    assert re.search(r"file\.pml:\d+ .*errors_left = \(errors_left-1\)", steps)
    assert "assertion violated" in steps


@pytest.mark.usefixtures("installed")
def test_a_search_that_was_cut_short_is_no_clean_one(tmp_path: Path) -> None:
    with pytest.raises(spin.SpinError, match="max search depth too small"):
        spin.search(RIGHT_QUICK[0], tmp_path, depth_max=100)


@pytest.mark.usefixtures("installed")
def test_a_model_that_spin_cannot_read_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(spin.SpinError):
        spin.search(Variant("unreadable", "", "WRITERS=None"), tmp_path)


def test_no_planted_mistake_is_left_out() -> None:
    model = "".join(path.read_text() for path in sorted(spin.MODEL.parent.glob("*.pml")))
    switches = {
        name for line in re.findall(r"^#(?:el)?if .*", model, re.MULTILINE) for name in re.findall(r"[A-Z_]{2,}", line)
    }
    bounds = set(re.findall(r"^#ifndef (\w+)", model, re.MULTILINE)) | {"LIVENESS"}
    tried = [variant.name for variant in (*MISTAKES_QUICK, *MISTAKES) if variant.name.isupper()]
    assert sorted(tried) == sorted(switches - bounds)
    settings = {
        setting.split("=")[0]
        for variant in (*RIGHT_QUICK, *RIGHT, *MISTAKES_QUICK, *MISTAKES)
        for setting in variant.bounds.split()
    }
    assert settings <= bounds | {"VICTIM"}
