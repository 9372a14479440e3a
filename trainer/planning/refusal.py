"""Refuse a run that cannot fit, before anything starts."""

from ...errors import TurnwiseError
from ..config.schema import RunConfig
from .machine import Machine, this_machine
from .model_source import model_shape
from .plan import plan_run
from .remedies import find_remedies

ERROR_MARGIN = 0.15
"""Largest error of the plan of a learner on a CPU, over the measured peak (``benchmarks/learner.py``)."""


def refuse_oversized(config: RunConfig) -> None:
    """Refuse a run that certainly does not fit on this machine: not even if the plan errs by ``ERROR_MARGIN``.

    Not checked are the hosts of a Ray cluster, and a run that cannot be planned: its model has no known shape, or
    cannot be read (the start of the run names the reason).

    Raises:
        TurnwiseError: the run does not fit; the message names settings with which it does.
    """
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
    raise TurnwiseError(
        f"the run cannot fit: {'; '.join(plan.refusals)}. "
        + (f"It fits with {hint}. " if hint else "It fits with no setting on this machine. ")
        + "`turnwise plan CONFIG.toml` prints the memory of each process"
    )
