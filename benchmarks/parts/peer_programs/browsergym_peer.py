"""Serve BrowserGym's MiniWoB on standard input and output, run by the Python of a separate virtual environment.

``tools/browsergym.sh`` creates it, because BrowserGym pins an old Playwright. Each line of input is a JSON object,
``{"reset": task, "seed": n}`` or ``{"step": "click('12')"}``, and is answered by one line. The observation is the list
of the accessibility tree's nodes that have an id; ``seconds`` is the duration of the call.
"""

import argparse
import importlib
import json
import sys
from time import perf_counter
from typing import Any

from browsergym.core.env import BrowserEnv
from playwright.sync_api import BrowserType


def visible_nodes(observation: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the nodes that have an id, in document order."""
    extra = observation["extra_element_properties"]
    nodes = []
    for node in observation["axtree_object"]["nodes"]:
        bid = node.get("browsergym_id")
        if bid and not node.get("ignored"):
            role, name = (node.get(key, {}).get("value", "") for key in ("role", "name"))
            nodes.append({"id": bid, "role": role, "name": name, "visible": extra[bid]["visibility"] > 0})
    return nodes


def task_class(name: str) -> Any:
    """Return BrowserGym's class of a task."""
    everything = importlib.import_module("browsergym.miniwob.all")
    for environment in vars(everything).values():
        if getattr(environment, "subdomain", None) == name:
            return environment
    raise SystemExit(f"BrowserGym has no MiniWoB task {name!r}")


def main() -> None:
    """Answer requests until the end of the input."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--program", required=True, help="the browser")
    parser.add_argument("--url", required=True, help="where MiniWoB's pages are served")
    parser.add_argument("--no-delay", action="store_true", help="without slow_mo and the wait before each observation")
    parser.add_argument("--no-slow-mo", action="store_true", help="without slow_mo only")
    parser.add_argument("--viewport", type=int, nargs=2, help="width and height in pixels; the task's own by default")
    args = parser.parse_args()
    launch = BrowserType.launch

    def ours(self: BrowserType, **settings: Any) -> Any:
        # BrowserGym's chat window is another browser, without a parameter for the program.
        return launch(self, **{**settings, "executable_path": args.program})

    BrowserType.launch = ours
    env_settings: dict[str, Any] = {"slow_mo": 0, "pre_observation_delay": 0.0} if args.no_delay else {}
    if args.no_slow_mo:
        env_settings = {"slow_mo": 0}
    if args.viewport:
        env_settings["viewport"] = dict(zip(("width", "height"), args.viewport, strict=True))
    env: BrowserEnv | None = None
    task = ""
    for line in sys.stdin:
        request = json.loads(line)
        answer: dict[str, Any] = {}
        if "reset" in request:
            if env is not None and request["reset"] != task:
                env.close()
                env = None
            task = request["reset"]
            env = env or BrowserEnv(task_class(task), task_kwargs={"base_url": args.url}, **env_settings)
            start = perf_counter()
            observation, _ = env.reset(seed=request["seed"])
            answer["goal"] = observation["goal"]
        else:
            assert env is not None
            start = perf_counter()
            observation, answer["reward"], answer["over"], _, _ = env.step(request["step"])
            answer["error"] = observation["last_action_error"]
        answer["seconds"] = perf_counter() - start
        answer["nodes"] = visible_nodes(observation)
        answer["pixels"] = list(observation["screenshot"].shape)
        print(json.dumps(answer), flush=True)
    if env is not None:
        env.close()


if __name__ == "__main__":
    main()
