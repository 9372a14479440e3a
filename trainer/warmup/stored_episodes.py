"""Episodes for the warm-up from the store: the successes of an expert in one run, recorded or imported."""

from collections.abc import Sequence
from pathlib import Path

from ...agents.demonstrations import DemonstrationEncoder
from ...envs.tasks import env_key, env_key_of
from ...errors import TurnwiseError
from ...store.database import Database
from ...store.queries import RunReader
from ..config.schema import RunConfig
from ..learner.samples import samples
from ..learner.sft import SftExample
from ..learner.stored_images import StoredImages
from .random_episodes import Episode

LIMIT = 10_000
"""Demonstrations to load, per environment: the newest ones."""


def stored_episodes(database: Database, run: str, config: RunConfig, model: Path) -> Sequence[Episode]:
    """Return the demonstrations of ``run`` in the environments of ``config``, encoded for ``model``.

    Raises:
        TurnwiseError: there is none, or one cannot be encoded.
    """
    encode = DemonstrationEncoder(database, model, config.max_context, config.horizon.max_images)
    reader, images = RunReader(run, database, texts=True, encode=encode), StoredImages(database, model)
    wanted = {env_key_of(one.id, one.options) for one in config.environments}
    found: list[Episode] = []
    for name in sorted({one.id for one in config.environments}):
        ids = reader.demonstrations(limit=LIMIT, run=run, environment=name)
        for scored in reader.load_demonstrations(ids):
            if env_key(scored.group.task) in wanted:
                found += [
                    [
                        SftExample(
                            sample.tokens.tolist(),
                            [
                                {int(token): 1.0} if source >= 0 else None
                                for token, source in zip(sample.tokens, sample.sources, strict=True)
                            ],
                            sample.images,
                        )
                        for sample in samples(one, images)
                    ]
                    for one in scored.group.trajectories
                ]
    if not found:
        raise TurnwiseError(
            f"`sft_warmup.source`: no success of an expert in run `{run}` has the options of these environments and "
            "fits into `horizon.max_context`"
        )
    return found
