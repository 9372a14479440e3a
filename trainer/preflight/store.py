"""The refusals of a store that lacks the groups of an offline run, or that a run's actors cannot reach."""

from collections.abc import Iterator

from ...agents.placement import hosts_of_actors
from ...base.masking import without_secrets
from ...store import queries
from .refusal import RUNS, Command, Cost, Refusal, Stage, Subject, refuses


@refuses("offline.run", Cost.STORE, *RUNS)
def missing_groups(subject: Subject) -> Iterator[Refusal]:
    """Refuse an offline run whose source has too few scored groups, or sampled at another temperature.

    Raises:
        NotFound: the source or its reward set does not exist.
    """
    config, database = subject.config, subject.database
    if config.offline.run is None:
        return
    source, offline = config.offline.run, config.offline
    if database is None:
        yield Refusal("offline.run", f"run `{source}` is not in the store, which does not exist yet", "set `--store`")
        return
    with database.read() as conn:
        row = queries.find_run(conn, source)
        count = len(queries.scored_from(conn, source, 0))
        if offline.rewards is not None:
            queries.reward_set(conn, source, offline.rewards)
    if count < config.rollout.groups_per_batch:
        yield Refusal(
            "offline.run",
            f"`offline.run`: run `{source}` has {count} scored training groups, and a batch needs "
            f"`rollout.groups_per_batch` = {config.rollout.groups_per_batch}",
        )
    sampled_at = row.config.get("rollout", {}).get("temperature", 1.0)
    if sampled_at != config.rollout.temperature:
        yield Refusal(
            "rollout.temperature",
            f"run `{source}` sampled at temperature {sampled_at:g}",
            "set `rollout.temperature` to it, because the stored log-probabilities are compared with those of the "
            "learner at the same temperature",
        )


@refuses("sft_warmup.source", Cost.STORE, Command.TRAIN)
def missing_demonstrations(subject: Subject) -> Iterator[Refusal]:
    """Refuse a warm-up on a run of the store that is not there, or has no success of an expert in an environment."""
    config, database = subject.config, subject.database
    source = config.warmup_source
    if source in (None, "random", "oracle"):
        return
    reader = None if database is None else queries.RunReader(source, database)
    for name in sorted({one.id for one in config.environments}):
        if reader is None or not reader.demonstrations(limit=1, run=source, environment=name):
            yield Refusal(
                "sft_warmup.source",
                f"`sft_warmup.source`: the store has no run `{source}` with a success of an expert on a training task "
                f"of {name}",
                f"record some with `turnwise eval --policy oracle --split train --env {name} --name {source}`, import "
                "them, or set it to `random` or `oracle`",
            )


@refuses("--store", Cost.MACHINE, *RUNS, stage=Stage.WEIGHTS)
def unreachable_store(subject: Subject) -> Iterator[Refusal]:
    """Refuse an SQLite store if Ray may place actors of the run on other hosts."""
    database = subject.database
    # Without engines, the driver alone writes.
    if database is None or database.engine.dialect.name != "sqlite" or not subject.config.num_engines:
        return
    import ray

    if not ray.is_initialized():
        return
    nodes = ray.nodes()
    own = ray.get_runtime_context().get_node_id()
    local = {str(node["NodeManagerAddress"]) for node in nodes if node["NodeID"] == own}
    if others := sorted(hosts_of_actors(nodes) - local):
        yield Refusal(
            "--store",
            f"the store `{without_secrets(database.url)}` is an SQLite file of this host, and the Ray cluster may "
            f"place actors that write to it on other hosts (`{'`, `'.join(others[:3])}`)",
            "use a PostgreSQL store (`--store postgresql://USER@HOST/NAME`), or train on this host alone, without "
            "`--ray-address`",
        )
