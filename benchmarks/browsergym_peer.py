"""BrowserGym's MiniWoB as a process that is told what to do; run by the Python of an environment of its own.

``tools/browsergym.sh`` makes that environment: BrowserGym pins a Playwright of long ago, which fits beside nothing
else. Reads a JSON object a line and answers each by one: ``{"reset": task, "seed": n}``, ``{"step": "click('12')"}``.
What is seen is told as the nodes of the accessibility tree that have an id. ``seconds`` is what the call itself took.
"""

import argparse
import importlib
import json
import sys
from time import perf_counter
from typing import Any

from browsergym.core.env import BrowserEnv
from playwright.sync_api import BrowserType


def seen(observation: dict[str, Any]) -> list[dict[str, Any]]:
    """What has an id, in document order."""
    extra = observation["extra_element_properties"]
    nodes = []
    for node in observation["axtree_object"]["nodes"]:
        bid = node.get("browsergym_id")
        if bid and not node.get("ignored"):
            role, name = (node.get(key, {}).get("value", "") for key in ("role", "name"))
            nodes.append({"id": bid, "role": role, "name": name, "seen": extra[bid]["visibility"] > 0})
    return nodes


def task_class(name: str) -> Any:
    """BrowserGym's class of a task."""
    everything = importlib.import_module("browsergym.miniwob.all")
    for one in vars(everything).values():
        if getattr(one, "subdomain", None) == name:
            return one
    raise SystemExit(f"BrowserGym has no MiniWoB task {name!r}")


def main() -> None:
    """Answer until the end of the input."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--program", required=True, help="the browser")
    parser.add_argument("--url", required=True, help="where MiniWoB's pages are served")
    parser.add_argument("--no-delay", action="store_true", help="without slow_mo and the wait before each observation")
    parser.add_argument("--no-slow-mo", action="store_true", help="without slow_mo alone")
    args = parser.parse_args()
    launch = BrowserType.launch

    def ours(self: BrowserType, **settings: Any) -> Any:
        # Its chat window is a browser too, and takes no argument for the program.
        return launch(self, **{**settings, "executable_path": args.program})

    BrowserType.launch = ours
    delays: dict[str, Any] = {"slow_mo": 0, "pre_observation_delay": 0.0} if args.no_delay else {}
    if args.no_slow_mo:
        delays = {"slow_mo": 0}
    env: BrowserEnv | None = None
    was = ""
    for line in sys.stdin:
        asked = json.loads(line)
        answer: dict[str, Any] = {}
        if "reset" in asked:
            if env is not None and asked["reset"] != was:
                env.close()
                env = None
            was = asked["reset"]
            env = env or BrowserEnv(task_class(was), task_kwargs={"base_url": args.url}, **delays)
            began = perf_counter()
            observation, _ = env.reset(seed=asked["seed"])
            answer["goal"] = observation["goal"]
        else:
            assert env is not None
            began = perf_counter()
            observation, answer["reward"], answer["over"], _, _ = env.step(asked["step"])
            answer["error"] = observation["last_action_error"]
        answer["seconds"] = perf_counter() - began
        answer["nodes"] = seen(observation)
        answer["pixels"] = list(observation["screenshot"].shape)
        print(json.dumps(answer), flush=True)
    if env is not None:
        env.close()


if __name__ == "__main__":
    main()
