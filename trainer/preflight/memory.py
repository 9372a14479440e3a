"""The refusal of a run that cannot fit on this machine."""

from collections.abc import Iterator

from ...errors import TurnwiseError
from ..planning.machine import Machine, this_machine
from ..planning.model_source import model_shape
from ..planning.plan import plan_run
from ..planning.remedies import find_remedies
from .refusal import Command, Cost, Refusal, Subject, refuses

ERROR_MARGIN = 0.15
"""Largest error of the plan of a learner on a CPU, over the measured peak (``benchmarks/learner.py``)."""


@refuses("learner", Cost.MODEL, Command.TRAIN, Command.FORK)
def too_little_memory(subject: Subject) -> Iterator[Refusal]:
    """Refuse a run that certainly does not fit on this machine: not even if the plan errs by ``ERROR_MARGIN``.

    Not checked are the hosts of a Ray cluster, and a run that cannot be planned: its model has no known shape, or
    cannot be read (another check names the reason).
    """
    config = subject.config
    machine, more = this_machine(), 1 + ERROR_MARGIN
    if config.ray_address is not None:
        machine = Machine(machine.memory)
    gpus = None if machine.gpus is None else tuple(int(one * more) for one in machine.gpus)
    generous = Machine(int(machine.memory * more), gpus)
    try:
        shape = model_shape(config)
        plan = plan_run(config, generous, shape)
    except TurnwiseError:
        return
    if not plan.refusals:
        return
    ways = find_remedies(config, machine, shape)
    hint = " or ".join(" ".join(f"`--set {one}`" for one in way) for way in ways)
    yield Refusal(
        "learner",
        f"the run cannot fit: {'; '.join(plan.refusals)}",
        f"It fits with {hint or 'no setting on this machine'}. `turnwise plan CONFIG.toml` prints the memory of each "
        "process",
    )
