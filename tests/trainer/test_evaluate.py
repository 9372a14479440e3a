"""``evaluate``: how the policies it measures are called."""

from pathlib import Path

from turnwise.tests.agents.servers import Counter, serving
from turnwise.trainer.evaluate import evaluate

EPISODES = 24
TURNS = 3


def test_a_server_is_called_for_all_episodes_at_once_over_kept_connections(tmp_path: Path) -> None:
    counter = Counter("back", together=EPISODES, patience_s=10)
    with serving(counter) as url:
        result = evaluate(
            url, "turnwise/Site-v0", tasks=EPISODES, turns=TURNS, store_url=f"sqlite:///{tmp_path}/turnwise.db"
        )
    assert (result.tasks, result.failed, result.turns) == (EPISODES, 0, TURNS)
    assert counter.arrived == EPISODES * TURNS
    assert counter.most == EPISODES
    assert counter.connections == EPISODES
