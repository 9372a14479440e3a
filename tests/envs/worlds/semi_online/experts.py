"""Episodes of experts for the tests of semi-online training."""

from pathlib import Path

from turnwise.envs.worlds.semi_online.env import Expert, write_experts

FIRST = Expert(
    id="first",
    instructions="Use the site.",
    observations=("open inbox", "inbox page", "answer it", "right"),
    actions=("click inbox", "<think>it is 23</think>answer 23", "done"),
)
HELD_OUT = Expert(id="held-out", split="test", instructions="Use the site.", observations=("a", "b"), actions=("done",))


def experts_file(folder: Path, *experts: Expert) -> str:
    path = folder / "experts.jsonl"
    write_experts(path, experts or (FIRST, HELD_OUT))
    return str(path)
