"""The hidden cases fail the mutants of every reference solution. `soak.py --parts mutants` grades all of several seeds.

The programs are harmless, so they run on this machine, without a sandbox.
"""

import re
from functools import cache
from pathlib import Path

import pytest
from turnwise.envs.worlds.code.instances import FAMILIES, draw
from turnwise.records import SPLITS
from turnwise.tests.envs.worlds.code.families.mutation import equivalents, mutants
from turnwise.tests.envs.worlds.code.families.test_wrong_solutions import passes

SAMPLE = 8
"""Number of mutants per family, of about seventy."""


@pytest.mark.parametrize("family", FAMILIES)
def test_a_mutant_fails_or_is_equivalent(tmp_path: Path, family: str) -> None:
    task = draw(0, "train", family)
    every = [mutant for mutant in mutants(task) if not mutant.is_equivalent]
    sample = every[:: max(1, len(every) // SAMPLE)]
    assert len(sample) >= SAMPLE
    survivors = [
        (mutant.before, mutant.after)
        for number, mutant in enumerate(sample)
        if passes(task, mutant.change(task), tmp_path / str(number))
    ]
    assert survivors == []


def test_mutants_are_small_changes_of_the_solution() -> None:
    task = draw(0, "train", "parsing")
    found = {(mutant.before, mutant.after) for mutant in mutants(task)}
    assert ("value = value.strip()", "value = (value)") in found
    assert ("value = value[1:-1]", "value = value[(2):-1]") in found
    assert ('if not line or line.startswith("#"):', "if (not line and line.startswith('#')):") in found
    assert mutants(task) == mutants(task)


@cache
def lines(family: str, seed: int) -> list[tuple[str, str, str]]:
    return [(mutant.task, mutant.before, mutant.after) for mutant in mutants(draw(seed, SPLITS[seed % 2], family))]


@pytest.mark.parametrize("number", range(len(equivalents())))
def test_an_entry_of_the_record_is_a_mutant(number: int) -> None:
    entry = equivalents()[number]
    assert any(
        re.fullmatch(entry.get("task", ".*"), task)
        and re.fullmatch(entry["before"], before)
        and re.fullmatch(entry["after"], after)
        for family in FAMILIES
        if re.fullmatch(entry["family"], family)
        for seed in range(8)
        for task, before, after in lines(family, seed)
    )
