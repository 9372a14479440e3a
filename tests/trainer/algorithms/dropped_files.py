"""One file per slot, in a package outside turnwise. Each component counts its calls and changes something visible.

The count is the component's metric ``calls`` and its state. A rollout controller runs in a copy without state, so it
counts in the driver and leaves its decisions in the store.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from turnwise.trainer.algorithms.algorithm_set import SLOTS

PREFIX = "Read it twice."
WEIGHT = 0.5
"""Factor on the loss of every trajectory, by the rollout controller."""
BONUS = 0.25
"""Reward of the last turn of each member, times the number of the member, by the reward shaper."""

FILE = '''"""A method outside turnwise.

Source: ours.
"""

from pydantic import PrivateAttr
{imports}


class Counted({base}):
    """Counts its calls."""

    _calls: int = PrivateAttr(0)

{methods}
    def metrics(self):
        return {{"calls": self._calls}}

    def state_dict(self):
        return {{"calls": self._calls}}

    def load_state_dict(self, state):
        self._calls = state["calls"]
'''

CONTENT: Mapping[str, tuple[str, str]] = {
    "task_sampler": (
        "",
        """
    def propose(self, environments, rng):
        self._calls += 1
        return environments[0].draw(rng)
""",
    ),
    "group_size": (
        "",
        """
    def size(self, task, group_size):
        self._calls += 1
        return group_size + 1
""",
    ),
    "prompt_prefix": (
        "",
        f"""
    def apply(self, task, rng):
        self._calls += 1
        return "{PREFIX}"
""",
    ),
    "horizon": (
        "",
        """
    def turns_at(self, update):
        self._calls += 1
        return 3

    def longest_turns(self):
        return 3
""",
    ),
    "rollout_control": (
        "from turnwise.agents.rollout.control import Weigh",
        f"""
    def members(self, size):
        self._calls += 1
        return size

    def decide(self, view, stream):
        return [Weigh(view.latest.member, {WEIGHT})]
""",
    ),
    "rewards": (
        "from turnwise.trainer.algorithms.groups import Shaped",
        f"""
    def __call__(self, group, rewards):
        self._calls += 1
        members = enumerate(rewards)
        return [Shaped([*turns[:-1], turns[-1] + {BONUS} * member], {{"bonus": member}}) for member, turns in members]
""",
    ),
    "group_filters": (
        "",
        """
    def reject(self, scored):
        self._calls += 1
        return ""
""",
    ),
    "advantage": (
        "",
        """
    def __call__(self, groups):
        self._calls += 1
        return [[[sum(turns)] * len(turns) for turns in scored.rewards] for scored in groups]
""",
    ),
    "sample_filters": (
        "",
        """
    def __call__(self, batch, rng):
        self._calls += 1
        return list(batch)
""",
    ),
    "loss": (
        "from turnwise.records import Source\nfrom turnwise.trainer.algorithms.losses.base import LossOutput, Metric",
        """
    accepts = frozenset({Source.POLICY, Source.REPLAY})

    def __call__(self, batch):
        self._calls += 1
        values = batch.weights * batch.advantages * batch.logprobs
        return LossOutput(-values.sum() / batch.totals.tokens, {"dropped": Metric(batch.proximal == batch.behavior)})
""",
    ),
    "proximal": (
        "",
        """
    def logprobs(self, tokens, score):
        self._calls += 1
        return tokens.behavior
""",
    ),
    "replay_buffer": (
        "",
        """
    def mix(self, fresh, *reads):
        self._calls += 1
        return list(fresh)
""",
    ),
}
"""Imports and methods of each file."""


def drop_files(folder: Path, package: str) -> dict[str, Any]:
    """Write one module per slot into a new package in ``folder``; return the configuration that selects them all."""
    (folder / package).mkdir()
    (folder / package / "__init__.py").touch()
    chosen: dict[str, Any] = {}
    for base in SLOTS:
        imports, methods = CONTENT[base.slot]
        imports = f"from {base.__module__} import {base.__name__}\n{imports}".rstrip()
        text = FILE.format(imports=imports, base=base.__name__, methods=methods)
        (folder / package / f"{base.slot}.py").write_text(text)
        component = {"name": f"{package}.{base.slot}:Counted"}
        chosen[base.slot] = component if base.default else [component]
    return chosen
