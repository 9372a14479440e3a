"""Compare MiniWoB++ in the browser sandboxes with BrowserGym: steps and resets per second, and memory, for 1, 4 and 8.

Both sides play the same tasks, seeds and actions (a click into a field and its filling, alternately). Each observation
is the accessibility tree with the numbers of the elements and their visibility, and a screenshot of the same size: the
PNG file in turnwise, an array in BrowserGym, as each returns it. BrowserGym runs one environment per process, turnwise
one per sandbox. At each concurrency, with screenshots of the tasks' size (``small``) and of 1024 x 768 (``large``), the
two sides alternate, and a ratio compares their medians. ``as_shipped`` is BrowserGym with its slow_mo of 100 ms and its
wait of 500 ms before each observation; ``no_delay`` has neither. Top-level ratios are the worst of all.

``resets_ratio`` is for resets in place, which two thirds of the MiniWoB++ tasks allow; ``resets_ratio_opened`` is for a
new tab in an empty context per episode; BrowserGym starts a new browser. Memory is that of the browser and the process
that holds it: all of BrowserGym, and the sandbox of turnwise.

Requires a Docker engine, the image ``web``, and ``bash tools/browsergym.sh``. Prints one JSON line last.
"""

import argparse
import json
import subprocess
import sys
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from statistics import median
from time import perf_counter, sleep
from typing import Any, Protocol

from turnwise.benchmarks.parts.peers import Peer, pages
from turnwise.envs.web.env import EpisodeStart
from turnwise.envs.web.miniwob.env import MiniWoBEnv
from turnwise.sandbox import set_provider
from turnwise.sandbox.images.reference import image_reference
from turnwise.sandbox.provider import InProcessProvider

TASKS = ("enter-text", "login-user", "enter-password", "enter-text-dynamic")
"""Tasks in which clicking into a field and filling it does not end the episode."""

WINDOWS: dict[str, Sequence[str]] = {"small": (), "large": ("--viewport", "683", "512")}
"""Options of BrowserGym, which scales its screenshots of MiniWoB++ by 1.5: those of a large window have 1024 x 768."""


class Playing(Protocol):
    """An environment of either side."""

    pixels: tuple[int, ...]

    def reset(self, task: str, seed: int) -> None: ...
    def step(self, number: int) -> None: ...
    def close(self) -> None: ...


class BrowserGymPlayer:
    """An environment of BrowserGym."""

    def __init__(self, url: str, *options: str) -> None:
        self.peer = Peer(url, *options)
        self.field = ""
        self.pixels: tuple[int, ...] = ()

    def reset(self, task: str, seed: int) -> None:
        response = self.peer.reset(task, seed)
        self.pixels = tuple(response["pixels"])
        self.field = next(node["id"] for node in response["nodes"] if node["role"] == "textbox")

    def step(self, number: int) -> None:
        response = self.peer.step(f"fill('{self.field}', 'word{number}')" if number % 2 else f"click('{self.field}')")
        # On a busy machine, a click may exceed BrowserGym's limit of 500 ms; such a step counts.
        assert not response["error"] or "Timeout" in response["error"], response["error"]
        assert not response["over"]

    def close(self) -> None:
        self.peer.close()


class Opened(MiniWoBEnv):
    """MiniWoB++ with a new tab in an empty context for each episode."""

    def open_instance(self, page_seed: int) -> EpisodeStart:
        return replace(super().open_instance(page_seed), reusable=False)


class TurnwisePlayer:
    """An environment of turnwise, with a window of the size of BrowserGym's screenshots."""

    def __init__(self, pixels: tuple[int, ...], kind: type[MiniWoBEnv] = MiniWoBEnv) -> None:
        self.kind = kind
        self.envs: dict[str, MiniWoBEnv] = {}
        self.shape = pixels
        self.pixels: tuple[int, ...] = ()

    def reset(self, task: str, seed: int) -> None:
        if task not in self.envs:
            env = self.kind(task, observation="both")
            env.height, env.width = self.shape[:2]
            for other in self.envs.values():
                env.browser = other.browser
            self.envs[task] = env
        self.env = self.envs[task]
        observation, _ = self.env.reset(seed=seed)
        assert isinstance(observation, dict)
        self.pixels = observation["image"].pixels().shape
        self.field = next(node["id"] for node in self.env.nodes if node["role"] == "textbox")

    def step(self, number: int) -> None:
        action = f'fill({self.field}, "word{number}")' if number % 2 else f"click({self.field})"
        _, _, over, _, info = self.env.step(action)
        assert info["action_valid"]
        assert not over

    def close(self) -> None:
        for env in self.envs.values():
            env.close()


def rate(players: Sequence[Playing], work: Callable[[Playing, int], int]) -> float:
    """Return the operations per second of all players together; ``work`` returns the count of one player."""
    with ThreadPoolExecutor(len(players)) as threads:
        start = perf_counter()
        done = sum(threads.map(work, players, range(len(players))))
        return done / (perf_counter() - start)


def resets(times: int) -> Callable[[Playing, int], int]:
    """Return work for ``rate``: ``times`` resets, with a different task per player."""

    def work(player: Playing, place: int) -> int:
        for number in range(times):
            player.reset(TASKS[place % len(TASKS)], 100 * place + number)
        return times

    return work


def steps(times: int) -> Callable[[Playing, int], int]:
    """Return work for ``rate``: ``times`` steps of the current episode."""

    def work(player: Playing, _: int) -> int:
        for number in range(times):
            player.step(number)
        return times

    return work


def measured(players: Sequence[Playing], reset_times: int, step_times: int) -> dict[str, float]:
    """Measure resets and steps once."""
    return {"resets": rate(players, resets(reset_times)), "steps": rate(players, steps(step_times))}


def descendants(process: int) -> set[int]:
    """Return the ids of a process and its descendants."""
    found, new = {process}, [process]
    while new:
        for children in Path(f"/proc/{new.pop()}/task").glob("*/children"):
            below = {int(one) for one in children.read_text().split()} - found
            found |= below
            new += below
    return found


def memory_mib(processes: set[int]) -> float:
    """Return the proportional set size of the processes, in MiB."""
    total = 0
    for process in processes:
        try:
            text = Path(f"/proc/{process}/smaps_rollup").read_text()
        except OSError:
            continue
        total += sum(int(line.split()[1]) for line in text.splitlines() if line.startswith("Pss:"))
    return total / 1024


def sandbox_processes() -> set[int]:
    """Return the process ids of all running sandboxes of the image ``web``; nothing else may use that image."""
    listed = ["docker", "ps", "-q", "--filter", f"ancestor={image_reference('web')}"]
    names = subprocess.run(listed, capture_output=True, text=True, check=True).stdout.split()
    found: set[int] = set()
    for name in names:
        command = ["docker", "top", name, "-eo", "pid"]
        top = subprocess.run(command, capture_output=True, text=True, check=True).stdout
        found |= {int(line) for line in top.split()[1:]}
    return found


def compare(url: str, count: int, window: Sequence[str], chosen: argparse.Namespace) -> dict[str, Any]:
    """Measure every kind of environment alternately at one concurrency and one size of the window."""
    kinds: dict[str, Callable[[], Playing]] = {
        "as_shipped": lambda: BrowserGymPlayer(url, *window),
        "no_delay": lambda: BrowserGymPlayer(url, "--no-delay", *window),
    }
    rates: dict[str, list[dict[str, float]]] = {"as_shipped": [], "no_delay": [], "ours": [], "opened": []}
    memory: dict[str, float] = {}
    for _ in range(chosen.rounds):
        pixels: tuple[int, ...] = ()
        for kind, make in kinds.items():
            players = [make() for _ in range(count)]
            try:
                rate(players, resets(1))
                rates[kind].append(measured(players, chosen.peer_resets, chosen.peer_steps))
                pids = set[int]().union(*(descendants(one.peer.process.pid) for one in players))  # type: ignore[attr-defined]
                memory[kind] = memory_mib(pids) / count
                pixels = players[0].pixels
            finally:
                for player in players:
                    player.close()
        ours = [TurnwisePlayer(pixels) for _ in range(count)]
        try:
            rate(ours, resets(1))
            rates["ours"].append(measured(ours, chosen.resets, chosen.steps))
            assert ours[0].pixels == pixels, (ours[0].pixels, pixels)
            memory["ours"] = memory_mib(sandbox_processes()) / count
        finally:
            for one in ours:
                one.close()
        opened = [TurnwisePlayer(pixels, Opened) for _ in range(count)]
        try:
            rate(opened, resets(1))
            rates["opened"].append({"resets": rate(opened, resets(chosen.resets))})
        finally:
            for one in opened:
                one.close()
        sleep(1)
    found = {kind: {key: median(turn[key] for turn in turns) for key in turns[0]} for kind, turns in rates.items()}
    return {
        **{
            kind: {f"{key}_per_s": round(value, 2) for key, value in medians.items()}
            | ({"mib_each": round(memory[kind])} if kind in memory else {})
            for kind, medians in found.items()
        },
        "steps_ratio_as_shipped": round(found["ours"]["steps"] / found["as_shipped"]["steps"], 2),
        "steps_ratio_no_delay": round(found["ours"]["steps"] / found["no_delay"]["steps"], 2),
        "resets_ratio": round(found["ours"]["resets"] / found["no_delay"]["resets"], 2),
        "resets_ratio_opened": round(found["opened"]["resets"] / found["no_delay"]["resets"], 2),
        "resets_ratio_as_shipped": round(found["ours"]["resets"] / found["as_shipped"]["resets"], 2),
        "pixels": list(pixels[:2]),
    }


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--concurrency", type=int, nargs="+", default=[1, 4, 8])
    parser.add_argument("--windows", nargs="+", default=[*WINDOWS], choices=[*WINDOWS])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--resets", type=int, default=20)
    parser.add_argument("--steps", type=int, default=100)
    parser.add_argument("--peer-resets", type=int, default=2)
    parser.add_argument("--peer-steps", type=int, default=12)
    chosen = parser.parse_args()
    source = InProcessProvider("docker", capacity=max(chosen.concurrency) + 1, warm=0)
    set_provider(source)
    results: dict[str, Any] = {}
    try:
        with pages() as url:
            for count in chosen.concurrency:
                for name in chosen.windows:
                    results[f"{count} {name}"] = compare(url, count, WINDOWS[name], chosen)
                    print(json.dumps({f"{count} {name}": results[f"{count} {name}"]}), file=sys.stderr, flush=True)
    finally:
        set_provider(None)
        source.close()
    ratios = [name for name in next(iter(results.values())) if "_ratio" in name]
    worst = {name: min(one[name] for one in results.values()) for name in ratios}
    print(json.dumps({"benchmark": "web_vs_browsergym", **worst, "by_concurrency_and_window": results}))


if __name__ == "__main__":
    main()
