"""Every shipped environment states its actions to a language model."""

from pathlib import Path

from turnwise.envs import all_ids, make
from turnwise.envs.runner.observations import instructions

from ..worlds.semi_online.experts import FIRST, experts_file

ID = "turnwise/SemiOnline-v0"
BROWSER = ("click(", "fill(", "send_msg_to_user(")
FOR_TINY_POLICIES = {
    "turnwise/TextSite-v0",
    "turnwise/TinyCode-v0",
    "turnwise/TinyDesktop-v0",
    "turnwise/TinyPixelsDesktop-v0",
    "turnwise/TinyPixelsWeb-v0",
    "turnwise/TinyWeb-v0",
}
"""A tiny policy reads most words of instructions as unknown ones: they would only lengthen its prompts."""
ACTIONS = {
    "turnwise/Calculator-v0": ("Write an expression", "12 * 34"),
    "turnwise/Code-v0": ("bash COMMAND", "view PATH", "edit PATH", "write PATH", "submit"),
    "turnwise/Desktop-v0": ("click(", "type(", "done("),
    "turnwise/GuessNumber-v0": ("only a number", "25"),
    "turnwise/TableLookup-v0": ("the name of a row", "only the number"),
    "turnwise/TwentyQuestions-v0": ("only one word", "a property"),
    "turnwise/WebApps-v0": BROWSER,
}


def test_every_shipped_environment_states_its_actions() -> None:
    lacking = {}
    for env_id in all_ids():
        if env_id.startswith("turnwise/") and env_id != ID and env_id not in FOR_TINY_POLICIES:
            env = make(env_id)
            lacking[env_id] = [form for form in ACTIONS.get(env_id, BROWSER) if form not in instructions(env)]
            env.close()
    assert len(lacking) > 130
    assert [env_id for env_id, forms in lacking.items() if forms] == []


def test_repeated_episodes_have_the_instructions_of_their_expert(tmp_path: Path) -> None:
    assert instructions(make(ID, path=experts_file(tmp_path, FIRST))) == FIRST.instructions
