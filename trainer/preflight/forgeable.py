"""The refusal of environments whose rewards an agent can forge, before a run trains on them."""

import asyncio
from collections.abc import Callable, Iterator

from ...envs.errors import EnvError, NotTrainable
from ...envs.runner.env_thread import EnvThread
from ...store import queries
from ...store.database import Database
from ..config.sections import EnvironmentConfig
from .environments import known
from .refusal import RUNS, Cost, Refusal, Subject, refuses

GROUPS_PER_READ = 1000


@refuses("environments", Cost.ENVIRONMENTS, *RUNS)
def forgeable_rewards(subject: Subject) -> Iterator[Refusal]:
    """Make each environment once and call its ``check_trainable``.

    A check that fails in any way refuses the environment, because the agent may be able to forge its rewards. An
    environment that cannot be made is left to its episodes, which record the failure.

    An offline run checks the environments that the groups of the other run were played in, as they are now, also with
    other rewards (``offline.rewards``): a component may compute them from those of the environment.
    """
    timeout_s, played = subject.config.rollout.reset_timeout_s, known(subject.config.played_environments)
    stored = _stored(subject)

    async def results() -> list[Refusal | None]:
        checks = [_forgeable(one, timeout_s, lambda reason: None) for one in played]
        checks += [_forgeable(one, timeout_s, lambda reason: _unchecked(subject, reason)) for one in stored]
        return await asyncio.gather(*checks)

    yield from filter(None, asyncio.run(results()))


async def _forgeable(environment: EnvironmentConfig, timeout_s: float, unmade: Callable[[str], None]) -> Refusal | None:
    """Return why a run must not train on an environment; call ``unmade`` if it cannot be made."""
    thread = EnvThread(environment.id, environment.options)
    try:
        await thread.make(timeout_s)
    except EnvError as error:
        unmade(str(error))
        return None
    try:
        await thread.run("cannot be trained on", lambda env: env.check_trainable(), timeout_s)
    except NotTrainable as error:
        return Refusal("environments", str(error))
    except EnvError as error:
        return Refusal(
            "environments",
            f"{error}; its `check_trainable` must return before a run trains on it",
            "repair the environment or its tasks, or raise `rollout.reset_timeout_s` if the check needs more time",
        )
    finally:
        await thread.close(timeout_s)
    return None


def _unchecked(subject: Subject, reason: str) -> None:
    subject.note(f"not checked whether an agent can forge the rewards: {reason}")


def _stored(subject: Subject) -> list[EnvironmentConfig]:
    """Return the environments of the groups that an offline run trains on.

    A store may hold imported episodes, so a module is imported only if the configuration names it.
    """
    source, database = subject.config.offline.run, subject.database
    if source is None or database is None:
        return []
    played = {str((one.id, one.options)): one for one in _played(database, source)}.values()
    foreign = {one.id for one in played if ":" in one.id} - {one.id for one in subject.config.environments}
    for name in sorted(foreign):
        _unchecked(subject, f"{name}: `environments` does not name it, so its module is not imported")
    return [one for one in played if one.id not in foreign]


def _played(database: Database, run: str) -> Iterator[EnvironmentConfig]:
    with database.read() as conn:
        names = [name for _, name in queries.scored_from(conn, run, 0)]
        for start in range(0, len(names), GROUPS_PER_READ):
            for group in queries.load_group_heads(conn, names[start : start + GROUPS_PER_READ]):
                yield EnvironmentConfig(id=group.task.env_id, options=dict(group.task.options))
