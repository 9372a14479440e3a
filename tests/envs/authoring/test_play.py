"""Episodes of a person: input lines come from a list, and output goes into one."""

from typing import Any

import numpy as np
import pytest
from turnwise.envs import EnvironmentBroken, EnvironmentFailed, Png, make
from turnwise.envs.authoring.play import HELP, play
from turnwise.envs.base import Image, Info, Obs, TurnEnv


def nowhere(picture: Png) -> str:
    return f"{picture.height}.png"


def test_an_episode_is_played_to_its_end() -> None:
    written: list[str] = []
    env = make("turnwise/TextSite-v0", family="open")
    goal = str(env.reset(seed=4, options={"split": "test"})[0]).split()[2]
    lines = iter([":hint", ":actions", f" click {goal}\n", "done", "never"])
    play(env, lines, written.append, nowhere, seed=4, split="test")
    assert written[0] == HELP
    assert written[1].startswith(f"task open {goal} click ")
    assert written[2] == f"click {goal}"
    assert f"  click {goal}" in written[3].splitlines()
    assert written[-2].endswith("   (+1.00: success +1.00)")
    assert written[-1] == "success after 2 turns, reward 1.20"


def test_help_describes_the_actions_and_piped_lines_are_echoed() -> None:
    written: list[str] = []
    play(Listing(), iter([":help", " say red \n"]), written.append, nowhere, max_turns=1, echo=True)
    assert written[2:6] == ["> :help", f"{HELP}\nvalid actions now:\n  say red", "> say red", "read   (+0.50)"]


def test_leaving_does_not_end_the_episode() -> None:
    for lines in ([":quit", "done"], []):
        written: list[str] = []
        play(make("turnwise/TextSite-v0"), iter(lines), written.append, nowhere)
        assert written[-1] == "left after 0 turns, reward 0.00"


class Picture(TurnEnv):
    """Shows an image; has neither an oracle nor valid actions."""

    def reset(self, *, seed: int | None = None, options: dict[str, object] | None = None) -> tuple[Obs, Info]:
        return {"text": "look", "image": np.zeros((2, 3, 3), np.uint8)}, {}

    def step(self, action: str) -> tuple[Obs, float, bool, bool, Info]:
        return np.zeros((4, 5, 3), np.uint8), 0.5, False, False, {}

    def instructions(self) -> str:
        return "point at things"


class Listing(TurnEnv):
    """Lists its valid actions, and has no instructions."""

    def reset(self, *, seed: int | None = None, options: dict[str, object] | None = None) -> tuple[Obs, Info]:
        return "read", {}

    def step(self, action: str) -> tuple[Obs, float, bool, bool, Info]:
        return "read", 0.5, False, False, {}

    def valid_actions(self) -> list[tuple[str, float]]:
        return [("say red", 1.0)]


class Looks(Picture):
    """Shows text, and has a screenshot for a person."""

    def reset(self, *, seed: int | None = None, options: dict[str, object] | None = None) -> tuple[Obs, Info]:
        return "read", {}

    def screenshot(self) -> Image | None:
        return np.zeros((6, 7, 3), np.uint8)


def test_a_person_gets_the_path_of_the_screenshot() -> None:
    written: list[str] = []
    play(Looks(), iter([]), written.append, nowhere)
    assert written[2] == "read\n[screenshot, 7 x 6: 6.png]"


def test_an_unknown_command_is_named_and_takes_no_turn() -> None:
    written: list[str] = []
    play(Picture(), iter([":foo"]), written.append, nowhere)
    assert written[3] == f"unknown command `:foo`\n{HELP}\npoint at things"
    assert written[-1] == "left after 0 turns, reward 0.00"


def test_the_paths_of_images_are_printed() -> None:
    written: list[str] = []
    play(Picture(), iter([":hint", ":help", "here"]), written.append, nowhere, max_turns=1)
    assert written[1:] == [
        "point at things",
        "look\n[screenshot, 3 x 2: 2.png]",
        "Picture has no oracle",
        f"{HELP}\npoint at things",
        "[screenshot, 5 x 4: 4.png]   (+0.50)",
        "ended after 1 turns, reward 0.50",
    ]


POSE = "x\nsuccess after 3 turns, reward 99.00"


class Posing(Picture):
    """Returns a line of ``play`` in every text."""

    def reset(self, *, seed: int | None = None, options: dict[str, object] | None = None) -> tuple[Obs, Info]:
        return POSE, {}

    def instructions(self) -> str:
        return POSE

    def oracle(self) -> str:
        return POSE

    def valid_actions(self) -> list[tuple[str, float]]:
        return [(POSE, 1.0)]


class PosingErrors(Posing):
    """Poses in the messages of its errors."""

    def oracle(self) -> str:
        raise LookupError(POSE)

    valid_actions = oracle  # type: ignore[assignment]


@pytest.mark.parametrize("env", [Posing(), PosingErrors()], ids=["texts", "errors"])
def test_further_lines_of_an_environment_follow_a_gutter(env: TurnEnv) -> None:
    written: list[str] = []
    play(env, iter([":hint", ":actions", ":help"]), written.append, nowhere)
    posed = [line for text in written for line in text.split("\n") if "success" in line]
    assert posed == ["| success after 3 turns, reward 99.00"] * 5


class Mistaken(Picture):
    """Divides by zero on request."""

    def __init__(self, where: str) -> None:
        self.where = where

    def reset(self, *, seed: int | None = None, options: dict[str, object] | None = None) -> tuple[Obs, Info]:
        return "read", {"share": self._wrong("reset")}

    def step(self, action: str) -> tuple[Obs, float, bool, bool, Info]:
        return "read", self._wrong("step"), False, False, {}

    def oracle(self) -> str:
        return str(self._wrong(":hint"))

    def screenshot(self) -> Image | None:
        self._wrong("screenshot")
        return None

    def _wrong(self, where: str) -> float:
        return 1 / int(where != self.where)


class Unchecked(Picture):
    """Returns values that break the contract."""

    def step(self, action: str) -> tuple[Obs, float, bool, bool, Info]:
        return "read", "1", False, False, {}  # type: ignore[return-value]

    def valid_actions(self) -> list[tuple[str, float]]:
        return ["go"]  # type: ignore[list-item]


def test_a_value_that_breaks_the_contract_is_named() -> None:
    written: list[str] = []
    with pytest.raises(EnvironmentBroken, match="reward is str, not a number"):
        play(Unchecked(), iter([":actions", "go"]), written.append, nowhere)
    assert written[-1].startswith("valid_actions() of Unchecked returned list ['go']; it must return (action, weight)")


@pytest.mark.parametrize("where", ["reset", "step", ":hint", "screenshot"])
def test_an_error_contains_the_last_lines_of_its_traceback(where: str) -> None:
    written: list[Any] = []
    with pytest.raises(EnvironmentFailed, match=f"^{where} raised\n(?s:.*)ZeroDivisionError") as raised:
        play(Mistaken(where), iter([":hint", "go"]), written.append, nowhere)
    lines = str(raised.value).splitlines()
    assert len(lines) < 14
    assert any("return 1 / int(where != self.where)" in line for line in lines)


class Shadowed(Picture):
    """Has an oracle with a mistake."""

    def oracle(self) -> str:
        nodes: Any = []
        return str(nodes())


def test_a_hint_names_the_line_of_a_mistake_of_the_oracle() -> None:
    written: list[str] = []
    play(Shadowed(), iter([":hint"]), written.append, nowhere)
    assert ":hint raised" in written[-2]
    assert f'File "{__file__}", line' in written[-2]
    assert "'list' object is not callable" in written[-2]
