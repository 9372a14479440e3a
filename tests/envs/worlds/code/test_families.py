"""Every family's solution passes, the untouched workspace does not, nor does any mutation; the splits share nothing.

CI judges one seed per family, of each split in turn, and compares fewer instances; the soak judges many, of both
splits.
"""

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest
from turnwise.envs.worlds.code.grading.grade import grade
from turnwise.envs.worlds.code.instances import FAMILIES, draw
from turnwise.envs.worlds.code.task import CodeTask, changed
from turnwise.envs.worlds.tiny.code import FAMILIES as TINY_FAMILIES
from turnwise.envs.worlds.tiny.code import draw as draw_tiny
from turnwise.records import SPLITS
from turnwise.tests.envs.soaked import soaked_but

SOAK_SEEDS = 200
AT_ONCE = 6


def of_seed(family: str, seed: int) -> CodeTask:
    task = draw(seed, SPLITS[seed % 2], family)
    return replace(task, spec=task.spec.model_copy(update={"trusted": True}))


def judged(task: CodeTask) -> list[str]:
    """Return the defects of a task: solutions that fail, and wrong solutions that pass."""
    assert task.solution is not None
    wrong = []
    solved = grade(task, changed(task.workspace, task.solution))
    if not solved.success or solved.tamper:
        wrong.append(f"{task.name}: the solution gets {solved}")
    if grade(task, task.workspace).success:
        wrong.append(f"{task.name}: the untouched workspace passes")
    for what, change in task.mutations.items():
        if grade(task, changed(task.workspace, change)).success:
            wrong.append(f"{task.name}: mutation {what!r} passes")
    return wrong


def all_judged(family: str, seeds: range) -> list[str]:
    """Check many seeds, several at a time: they wait for sandboxes more than they compute."""
    with ThreadPoolExecutor(AT_ONCE) as workers:
        found = workers.map(lambda seed: judged(of_seed(family, seed)), seeds)
        return [defect for each in found for defect in each]


def test_there_are_at_least_eight() -> None:
    assert len(FAMILIES) >= 8


@pytest.mark.parametrize("family", FAMILIES)
def test_only_the_solution_passes(any_sandboxes: str, family: str) -> None:
    first = list(FAMILIES).index(family) % len(SPLITS)
    assert all_judged(family, range(first, first + 1)) == []


@pytest.mark.soak
@pytest.mark.parametrize("family", FAMILIES)
def test_only_the_solution_passes_of_many_seeds(any_sandboxes: str, family: str) -> None:
    assert all_judged(family, range(SOAK_SEEDS)) == []


@pytest.mark.parametrize("family", FAMILIES)
def test_a_seed_gives_the_same_task_whose_cases_prove_something(family: str) -> None:
    for seed in range(20):
        task = draw(seed, "train", family)
        assert task == draw(seed, "train", family)
        assert not task.forgeable_case()
        assert len(task.mutations) >= 3
        assert task.name.startswith(family)


@pytest.mark.parametrize("count", [50, pytest.param(200, marks=pytest.mark.soak)])
@pytest.mark.parametrize("family", [*FAMILIES, "mix"])
def test_splits_share_no_instance(family: str, count: int) -> None:
    def workspaces(split: str, count: int) -> set[frozenset[tuple[str, bytes]]]:
        return {frozenset(draw(seed, split, family).workspace.items()) for seed in range(count)}

    train, test = workspaces("train", 2 * count), workspaces("test", count)
    assert not train & test
    assert len(test) > 0.95 * count


def test_the_mix_is_of_all_families() -> None:
    names = [draw(seed, "train").name for seed in range(300)]
    assert min(sum(name.startswith(family) for name in names) for family in FAMILIES) > 10


@pytest.mark.parametrize("seeds", [4, pytest.param(8, marks=pytest.mark.soak)])
@pytest.mark.parametrize("family", TINY_FAMILIES)
def test_tiny_solutions_pass(any_sandboxes: str, family: str, seeds: int) -> None:
    for seed in range(seeds):
        task = draw_tiny(seed, SPLITS[seed % 2], family).code
        assert judged(task) == []


def test_tiny_splits_share_no_combination() -> None:
    def combinations(split: str) -> set[tuple[str, frozenset[str]]]:
        tasks = [draw_tiny(seed, split, "mix") for seed in range(1500)]
        return {(task.asked, frozenset(task.faults)) for task in tasks}

    assert not combinations("train") & combinations("test")


@pytest.mark.parametrize("family", soaked_but(("formula",), list(FAMILIES)[::3]))
def test_the_local_backend_grades_a_task_alike(local: str, family: str) -> None:
    """The other tests of this file grade in Docker; this one comes last, because it replaces their sandboxes."""
    assert judged(of_seed(family, 1)) == []
