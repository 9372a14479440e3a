"""The refusal of stored groups whose rewards an agent may have forged."""

from collections.abc import Iterator

from ....store import queries
from ....store.database import Database
from ...config.schema import RunConfig
from ...config.sections import EnvironmentConfig
from ...rollout.trainable import refuse_untrainable

GROUPS_PER_READ = 1000


async def refuse_forgeable(config: RunConfig, database: Database, source: str) -> list[str]:
    """Check the environments that the scored groups of the run ``source`` were played in, as they are now.

    Other rewards (``offline.rewards``) are refused too: a component may compute them from those of the environment. A
    store may hold imported episodes, so a module is imported only if the configuration names it.

    Returns:
        the reasons why environments cannot be checked on this machine.

    Raises:
        NotTrainable: a run must not train on one of the environments.
    """
    played = {str((one.id, one.options)): one for one in _played(database, source)}.values()
    known = {one.id for one in config.environments}
    foreign = sorted({one.id for one in played if ":" in one.id} - known)
    own = [one for one in played if one.id not in foreign]
    unmade = await refuse_untrainable(own, config.rollout.reset_timeout_s)
    return [*unmade, *(f"{name}: `environments` does not name it, so its module is not imported" for name in foreign)]


def _played(database: Database, run: str) -> Iterator[EnvironmentConfig]:
    with database.read() as conn:
        names = [name for _, name in queries.scored_from(conn, run, 0)]
        for start in range(0, len(names), GROUPS_PER_READ):
            for group in queries.load_group_heads(conn, names[start : start + GROUPS_PER_READ]):
                yield EnvironmentConfig(id=group.task.env_id, options=dict(group.task.options))
