"""Grade every mutant of the reference solutions of all families, and list those that pass and are not equivalent."""

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

from turnwise.envs.worlds.code.grading.grade import grade
from turnwise.envs.worlds.code.instances import FAMILIES, draw
from turnwise.envs.worlds.code.task import CodeTask, changed
from turnwise.records import SPLITS
from turnwise.sandbox import set_provider
from turnwise.sandbox.provider import InProcessProvider
from turnwise.tests.envs.worlds.code.families.mutation import Mutant, mutants

AT_ONCE = 4


def grade_mutants(seeds: int, backend: str = "docker") -> dict[str, object]:
    """Return the number of mutants, of equivalent ones, and the lines of each survivor, per family."""
    source = InProcessProvider(backend, capacity=AT_ONCE, warm=1)
    set_provider(source)
    graded, equivalent, survivors = dict[str, int](), dict[str, int](), dict[str, list[list[str]]]()
    try:
        for family in FAMILIES:
            tasks = [_trusted(draw(seed, SPLITS[seed % 2], family)) for seed in range(seeds)]
            pairs = [(task, mutant) for task in tasks for mutant in mutants(task)]
            with ThreadPoolExecutor(AT_ONCE) as workers:
                passing = [pair[1] for pair, passes in zip(pairs, workers.map(_passes, pairs), strict=True) if passes]
            graded[family] = len(pairs)
            equivalent[family] = sum(mutant.is_equivalent for mutant in passing)
            lines = {(mutant.before, mutant.after) for mutant in passing if not mutant.is_equivalent}
            survivors[family] = [[*each] for each in sorted(lines)]
    finally:
        set_provider(None)
        source.close()
    return {"mutants": graded, "equivalent": equivalent, "survivors": {k: v for k, v in survivors.items() if v}}


def _passes(pair: tuple[CodeTask, Mutant]) -> bool:
    task, mutant = pair
    return grade(task, changed(task.workspace, mutant.change(task))).success


def _trusted(task: CodeTask) -> CodeTask:
    return replace(task, spec=task.spec.model_copy(update={"trusted": True}))
