"""An environment receives the answer of a turn without its leading thoughts, from every caller."""

import asyncio

import pytest
from turnwise.envs import make
from turnwise.envs.authoring.play import play
from turnwise.envs.runner.env_thread import EnvThread
from turnwise.envs.runner.thoughts import without_thoughts


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        ("click 23", "click 23"),
        ("  click 23\n", "  click 23\n"),
        ("<think>\nwhy not\n</think>\n\nclick 23\n", "click 23\n"),
        ("\n<think></think>click 23", "click 23"),
        ("<think>23 or", ""),
        ("<think>why not</think>", ""),
        ("<think>\n\n</think>\n\nwrite a.txt\n<think>x</think>\n", "write a.txt\n<think>x</think>\n"),
        ("bash echo '<think> </think>'", "bash echo '<think> </think>'"),
        ("why not</think>click 23", "why not</think>click 23"),
    ],
)
def test_only_leading_thoughts_are_removed(text: str, answer: str) -> None:
    assert without_thoughts(text) == answer


def test_a_step_and_a_person_send_the_answer_only() -> None:
    async def work() -> bool:
        owner = EnvThread("turnwise/TextSite-v0", {"family": "open"})
        await owner.make(5)
        await owner.reset(0, "train", 5)
        valid = (await owner.step(f"<think>the first?</think>\n{action}", 5)).action_valid
        await owner.close(5)
        return valid

    env = make("turnwise/TextSite-v0", family="open")
    env.reset(seed=0, options={"split": "train"})
    action = env.oracle()
    assert asyncio.run(work())
    written: list[str] = []
    play(env, iter([f"<think>the first?</think>{action}", "done"]), written.append, str)
    assert written[-1].startswith("success after 2 turns")
