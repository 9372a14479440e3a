"""The words of a new model, and the refusal of a run that lacks them before Ray starts."""

from pathlib import Path

import pytest
import ray
from turnwise.errors import TurnwiseError
from turnwise.tests.envs.faulty import FAULTY
from turnwise.trainer.cluster.ray_patches import shut_ray_down
from turnwise.trainer.config.schema import RunConfig
from turnwise.trainer.config.sections import EnvironmentConfig
from turnwise.trainer.run.run import train
from turnwise.trainer.warmup.vocabulary import closed_vocabulary

SITE = "turnwise/TextSite-v0"


def test_each_word_of_the_environments_is_listed_once() -> None:
    families = [EnvironmentConfig(id=SITE, options={"family": name}) for name in ("find", "open")]
    words = closed_vocabulary(families)
    assert len(words) == len(set(words))
    assert {"click", "back", "done"} <= set(words)


@pytest.mark.parametrize(
    ("environment", "message"),
    [
        (EnvironmentConfig(id=FAULTY), "closed vocabulary; return its words from `vocabulary"),
        (EnvironmentConfig(id=SITE, options={"famly": "find"}), "no option 'famly'"),
    ],
    ids=["no vocabulary", "unknown option"],
)
def test_a_run_without_a_vocabulary_is_refused_before_ray_starts(
    tmp_path: Path, environment: EnvironmentConfig, message: str
) -> None:
    shut_ray_down()
    config = RunConfig(name="wordless", environments=[environment])
    with pytest.raises(TurnwiseError, match=message):
        train(config, store_url=f"sqlite:///{tmp_path}/turnwise.db")
    assert not ray.is_initialized()
    assert not (tmp_path / "wordless").exists()
