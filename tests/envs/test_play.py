"""A person's episode, with lines from a list and output into one."""

import numpy as np
from turnwise.envs import make
from turnwise.envs.base import Info, Obs, TurnEnv
from turnwise.envs.play import HELP, play


def test_an_episode_is_played_to_its_end() -> None:
    written: list[str] = []
    env = make("turnwise/Site-v0", family="open")
    goal = env.reset(seed=4, options={"split": "test"})[0].split()[2]
    played = play(
        env, iter([":hint", ":actions", f" click {goal}\n", "done", "never"]), written.append, seed=4, split="test"
    )
    assert (played.turns, played.ended, played.success) == (2, True, True)
    assert played.reward == 1.2
    assert written[0] == HELP
    assert written[1].startswith(f"task open {goal} click ")
    assert written[2] == f"click {goal}"
    assert f"  click {goal}" in written[3].splitlines()
    assert written[-1] == "success after 2 turns, reward 1.20"


def test_leaving_is_not_an_end() -> None:
    for lines in ([":quit", "done"], []):
        written: list[str] = []
        played = play(make("turnwise/Site-v0"), iter(lines), written.append)
        assert (played.turns, played.ended, played.success) == (0, False, None)
        assert written[-1].startswith("left after 0 turns")


class Picture(TurnEnv):
    """Shows an image, and knows neither hints nor actions."""

    def reset(self, *, seed: int | None = None, options: dict[str, object] | None = None) -> tuple[Obs, Info]:
        return {"text": "look", "image": np.zeros((2, 3, 3), np.uint8)}, {}

    def step(self, action: str) -> tuple[Obs, float, bool, bool, Info]:
        return np.zeros((4, 5, 3), np.uint8), 0.5, False, False, {}

    def instructions(self) -> str:
        return "point at things"


def test_images_are_told_by_their_size() -> None:
    written: list[str] = []
    played = play(Picture(), iter([":hint", ":help", "here"]), written.append, max_turns=1)
    assert written[1:] == [
        "point at things",
        "look\n[image 3 x 2]",
        "Picture has no oracle",
        HELP,
        "[image 5 x 4]   (+0.50)",
        "ended after 1 turns, reward 0.50",
    ]
    assert played.ended
