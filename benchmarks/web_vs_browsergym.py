"""Compare MiniWoB++ in the browser sandboxes with BrowserGym: steps and resets per second, and memory, for 1, 4 and 8.

Both sides play the same tasks, seeds and actions (a click into a field and its filling, alternately). Each observation
is the accessibility tree with the numbers of the elements and their visibility, and a screenshot of the same size: the
PNG file in turnwise, an array in BrowserGym, as each returns it. BrowserGym runs one environment per process, turnwise
one per sandbox. At each concurrency, with screenshots of the tasks' size (``small``) and of 1024 x 768 (``large``), the
two sides alternate. A ratio is the median over the rounds of the ratio within one round, and every other round has the
reverse order, so that a machine that becomes slower favors no side. ``as_shipped`` is BrowserGym with its slow_mo of
100 ms and its wait of 500 ms before each observation; ``no_delay`` has neither. Top-level ratios are the worst of all.

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
from turnwise.envs.worlds.web.env import EpisodeStart
from turnwise.envs.worlds.web.miniwob.env import MiniWoBEnv
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
    def processes(self) -> set[int]: ...
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

    def processes(self) -> set[int]:
        return descendants(self.peer.process.pid)

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

    def processes(self) -> set[int]:
        return sandbox_processes()

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


def measured(players: Sequence[Playing], pixels: tuple[int, ...], chosen: argparse.Namespace) -> dict[str, float]:
    """Measure resets and steps per second, and memory, and close the players."""
    peer = isinstance(players[0], BrowserGymPlayer)
    reset_times, step_times = (chosen.peer_resets, chosen.peer_steps) if peer else (chosen.resets, chosen.steps)
    try:
        rate(players, resets(1))
        assert all(player.pixels == pixels for player in players), (players[0].pixels, pixels)
        found = {"resets": rate(players, resets(reset_times)), "steps": rate(players, steps(step_times))}
        return found | {"mib_each": memory_mib(set().union(*(player.processes() for player in players))) / len(players)}
    finally:
        for player in players:
            player.close()


def pixels_of(url: str, window: Sequence[str]) -> tuple[int, ...]:
    """Return the shape of BrowserGym's screenshots."""
    player = BrowserGymPlayer(url, *window)
    try:
        player.reset(TASKS[0], 0)
        return player.pixels
    finally:
        player.close()


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
    pixels = pixels_of(url, window)
    kinds: dict[str, Callable[[], Playing]] = {
        "as_shipped": lambda: BrowserGymPlayer(url, *window),
        "no_delay": lambda: BrowserGymPlayer(url, "--no-delay", *window),
        "ours": lambda: TurnwisePlayer(pixels),
        "opened": lambda: TurnwisePlayer(pixels, Opened),
    }
    rounds: list[dict[str, dict[str, float]]] = []
    for number in range(chosen.rounds):
        order = [*kinds] if number % 2 == 0 else [*reversed(kinds)]
        rounds.append({kind: measured([kinds[kind]() for _ in range(count)], pixels, chosen) for kind in order})
        sleep(1)

    def middle(kind: str, key: str) -> float:
        return median(one[kind][key] for one in rounds)

    def ratio(key: str, kind: str, peer: str) -> float:
        return round(median(one[kind][key] / one[peer][key] for one in rounds), 2)

    return {
        **{
            kind: {
                "resets_per_s": round(middle(kind, "resets"), 2),
                "steps_per_s": round(middle(kind, "steps"), 2),
                "mib_each": round(middle(kind, "mib_each")),
            }
            for kind in kinds
        },
        "steps_ratio_as_shipped": ratio("steps", "ours", "as_shipped"),
        "steps_ratio_no_delay": ratio("steps", "ours", "no_delay"),
        "resets_ratio": ratio("resets", "ours", "no_delay"),
        "resets_ratio_opened": ratio("resets", "opened", "no_delay"),
        "resets_ratio_as_shipped": ratio("resets", "ours", "as_shipped"),
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
    worst = {name: min(result[name] for result in results.values()) for name in ratios}
    print(json.dumps({"benchmark": "web_vs_browsergym", **worst, "by_concurrency_and_window": results}))


if __name__ == "__main__":
    main()
