"""The log-probabilities of engine and learner agree for a family with new mechanics; `make soak` checks all."""

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest
from turnwise.tests.trainer.learner.model.parity.agreement import Agreeing, measure_all
from turnwise.trainer.cluster.runtime import start_ray, stop_ray

pytestmark = pytest.mark.slow

FAMILIES = [pytest.param("gemma2", marks=pytest.mark.soak), "qwen3_moe"]
"""Soft caps, windows and a template without system messages; experts."""


@pytest.fixture
def ray() -> Iterator[None]:
    start_ray()
    yield
    stop_ray()


@pytest.mark.usefixtures("ray")
@pytest.mark.parametrize("family", FAMILIES)
def test_engine_and_learner_agree_through_updates(tmp_path: Path, family: str) -> None:
    (agreement,) = asyncio.run(measure_all([Agreeing(family, tmp_path / family)]))
    assert agreement.problems == [], agreement
