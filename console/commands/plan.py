"""``turnwise plan``: the memory, tokens and staleness of a run, before anything starts."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ..options import Json, Overrides
from ..terminal.tables import print_table

if TYPE_CHECKING:
    from ...trainer.planning.machine import Machine
    from ...trainer.planning.plan import Place, Plan


def plan(
    config: Annotated[Path, typer.Argument(metavar="CONFIG.toml", help="Configuration of the run.")],
    overrides: Overrides = None,
    memory: Annotated[
        str | None,
        typer.Option("--memory", metavar="SIZE", help="Memory of the host, such as 64GiB; default: that of this one."),
    ] = None,
    gpus: Annotated[
        int | None, typer.Option("--gpus", min=0, help="GPUs of the host, 0 for none; default: those of this one.")
    ] = None,
    gpu_memory: Annotated[
        str | None, typer.Option("--gpu-memory", metavar="SIZE", help="Memory of each GPU, such as 24GiB.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Compute the sizes of a run; exit 1 if it cannot fit. Nothing is started."""
    from ...trainer.config.loading import load_config
    from ...trainer.planning.plan import plan_run
    from ...trainer.planning.processes import gpus_of
    from ...trainer.preflight.check import check
    from ...trainer.preflight.refusal import Command, Subject, refuse

    run = load_config(config, overrides)
    refuse(check(Subject(run, Command.PLAN)))
    machine = _machine(memory, gpus, gpu_memory, gpus_of(run))
    found = plan_run(run, machine)
    if as_json:
        from ..terminal.output import print_json

        print_json(_document(found))
    else:
        _print(found)
    if found.refusals:
        raise typer.Exit(1)


def _machine(memory: str | None, gpus: int | None, gpu_memory: str | None, needed: int) -> "Machine":
    """Return this machine with the given sizes; a size of GPUs without a number means as many as the run needs.

    Raises:
        TurnwiseError: the size of a GPU is not known.
    """
    from ...errors import TurnwiseError
    from ...trainer.planning.machine import Machine, parse_size, this_machine

    own = this_machine()
    sizes = own.gpus if gpus is None else (own.gpus or ())[:gpus]
    if gpu_memory is not None:
        sizes = (parse_size(gpu_memory),) * (needed if gpus is None else gpus)
    elif gpus and gpus > len(sizes or ()):
        found = len(sizes or ())
        raise TurnwiseError(f"`--gpus {gpus}`: this host has {found}: pass their size, `--gpu-memory 80GiB`")
    return Machine(own.memory if memory is None else parse_size(memory), sizes)


def _document(plan: "Plan") -> dict[str, Any]:
    shape = plan.shape
    return {
        "model": {"type": shape.model_type, "parameters": shape.parameters, "published": shape.is_published},
        "processes": [
            {
                "name": process.name,
                "place": process.place,
                "count": process.count,
                "bytes": process.total,
                "parts": process.parts,
            }
            for process in plan.processes
        ],
        "places": [
            {"name": place.name, "needed_bytes": place.needed, "available_bytes": place.available}
            for place in plan.places
        ],
        "engine": {
            "bytes_per_token": plan.engine.bytes_per_token,
            "cached_tokens": plan.engine.cached_tokens,
            "max_context": plan.engine.max_context,
        },
        "horizon": plan.horizon,
        "flow": plan.flow,
        "refusals": plan.refusals,
    }


def _print(plan: "Plan") -> None:
    from ...trainer.planning.plan import GPU_RESERVE, size
    from ...trainer.planning.processes import HOST
    from ..terminal.output import print_fields, print_text

    rows = [
        (process.name, str(process.count), process.place, size(process.total), _parts(process.parts))
        for process in plan.processes
    ]
    print_table(("process", "count", "place", "each", "of it"), rows, empty="no processes")
    places = [(place.name, size(place.needed), size(place.available), _verdict(place)) for place in plan.places]
    print_table(("place", "needs", "has", ""), places, empty="no places")
    flow, engine, horizon = plan.flow, plan.engine, plan.horizon
    published = " (published sizes: the hub cannot be reached)" if plan.shape.is_published else ""
    has_gpus = any(place.name != HOST for place in plan.places)
    print_fields(
        {
            "model": f"{plan.shape.model_type}, {plan.shape.parameters:,} parameters{published}",
            "reserve": f"{GPU_RESERVE:.0%} of each GPU is left free" if has_gpus else "",
            "horizon": f"{horizon.max_turns} turns, {horizon.max_tokens_per_turn:,} tokens per turn and "
            f"{horizon.max_tokens_per_episode:,} per episode, a context of {horizon.max_context:,}",
            "in flight": f"{flow.groups} groups, {flow.episodes} episodes, at most {flow.tokens:,} tokens",
            "kv cache": f"{engine.cached_tokens:,} tokens per engine, or {engine.cached_contexts} full contexts of "
            f"{engine.max_context:,}",
            "update": f"at most {flow.tokens_per_update:,} tokens",
            "staleness": f"{flow.staleness:.1f} updates expected for the first token of an episode, at most "
            f"{flow.max_staleness}",
        }
    )
    if unknown := [place.name for place in plan.places if place.available is None and place.name != HOST]:
        print_text(
            f"not checked: {', '.join(unknown)}, which this host does not have; pass the size of each GPU, such as "
            "--gpu-memory 24GiB"
        )
    for refusal in plan.refusals:
        print_text(f"cannot fit: {refusal}")
    if plan.refusals:
        print_text("docs/training.md names the keys that reduce memory")


def _verdict(place: "Place") -> str:
    if place.available is None:
        return ""
    return "does not fit" if place.overshoot else "fits"


def _parts(parts: dict[str, int]) -> str:
    from ...trainer.planning.plan import size

    largest = sorted(parts.items(), key=lambda item: -item[1])
    return ", ".join(f"{name} {size(count)}" for name, count in largest if count >> 20)
