"""The checks of an environment: each is a coroutine that returns its finding, or raises ``CheckFailed`` or ``Skipped``.

Every call of the environment goes through an ``EnvThread`` and so has a timeout. Every check makes its own
environments, so that one that hangs or breaks does not affect the next.
"""

import warnings
from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import replace
from functools import partial, wraps
from typing import Any

import gymnasium
from gymnasium.utils.env_checker import check_env

from ...records import SPLITS, SUCCESS_RETURN
from ..base import (
    ABOUT_ACTIONS,
    Adapted,
    TurnEnv,
    checked_actions,
    checked_oracle,
    checked_vocabulary,
    overrides,
    provides,
)
from ..errors import EnvError, EnvTimeout, NotTrainable
from ..runner.step_result import StepResult
from ..runner.thoughts import without_thoughts
from ..spaces import Png, image_sizes
from .all_rows import read_rows
from .isolation import episodes_apart, own_random_stream, process_kept
from .other_process import same_in_another_process
from .subject import (
    NOT_DETERMINISTIC,
    TURNS,
    CheckFailed,
    Skipped,
    Subject,
    difference,
    episode,
    outcome,
    random_stream,
)

EPISODES = 5
ODD_TEXTS = ("", " ", "no such action", "\n;\t", "x" * 10_000, "é 日本 \U0001f600", "\0\x1b[31m", "{'a': 1}", "'; --")
COSTS = {
    "oracle": "no evaluation of the oracle",
    "valid_actions": "no random policy and no format warm-up",
    "vocabulary": "no new tiny model",
    "normalize": "hashes of whole observations",
    "snapshot": "no branched or suspended episode",
}
"""Methods that a wrapper may hide, each with the consequence."""


async def first_reset(subject: Subject) -> str:
    """Check that an episode starts: every other check needs it."""
    async with subject.made() as owner:
        (seed,) = await subject.seeds(owner, 1)
        seen = await subject.reset(owner, seed)
    return f"an episode began in {seen.ms:.0f} ms"


async def tasks_listed(subject: Subject) -> str:
    """Check that `tasks` returns seeds, each once, and the same ones again; report how many there are.

    Of a data set, all rows are read.
    """
    async with subject.made() as owner:
        found = {split: await owner.tasks(split, subject.timeout_s) for split in SPLITS}
        for split, seeds in found.items():
            if await owner.tasks(split, subject.timeout_s) != seeds:
                raise CheckFailed(f"`tasks({split!r})` returned other seeds when it was called again")
            twice = [seed for seed, times in Counter(seeds or ()).items() if times > 1]
            if twice:
                raise CheckFailed(f"`tasks({split!r})` lists the seed {twice[0]} more than once: list each task once")
        copies = await read_rows(subject, owner)
    counts = {split: "every seed" if seeds is None else f"{len(seeds)} seeds" for split, seeds in found.items()}
    listed = ", ".join(f"{count} of `{split}`" for split, count in counts.items())
    return "; ".join([listed, *copies, f"a check plays at most {EPISODES} of a split"])


async def gymnasium_checker(subject: Subject) -> str:
    """Run Gymnasium's ``check_env``."""

    def work(seeds: list[int] | None, env: TurnEnv) -> list[str]:
        core = _core(env)
        if seeds is not None:
            _reset_with_tasks_only(core, seeds)
        if core.spec is not None and not env.deterministic:
            # Gymnasium reads it there, and otherwise expects two episodes of a seed to be equal.
            core.spec = replace(core.spec, nondeterministic=True)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            check_env(core, skip_render_check=True)  # turnwise never renders, and `human` would open a window
        return [str(warning.message) for warning in caught]

    async with subject.made() as owner:
        seeds = await subject.seeds(owner, 2)
        listed = subject.listed["train"] is not None
        if listed and len(seeds) < 2:
            raise Skipped("the environment lists one task, and Gymnasium's checker resets with two seeds")
        texts = await owner.run("check_env", partial(work, seeds if listed else None), subject.timeout_s)
    return "passed" if not texts else f"passed with {len(texts)} warnings: {texts[0]}"


def _reset_with_tasks_only(core: gymnasium.Env[Any, Any], seeds: list[int]) -> None:
    """Replace the seeds of Gymnasium's checker, which are no tasks, by these two: a run resets with tasks only."""
    original = core.reset

    @wraps(original)
    def reset(*, seed: int | None = None, options: dict[str, Any] | None = None) -> Any:
        return original(seed=seeds[0 if seed is None else seed % 2], options=options)

    core.reset = reset  # type: ignore[method-assign]


async def episodes_play(subject: Subject) -> str:
    """Check that episodes of both splits play within the contract and show pictures of declared sizes, and that the
    next reset works."""
    ended = turns = 0
    async with subject.made() as owner:
        seeds = [(seed, split) for split in SPLITS for seed in await subject.seeds(owner, EPISODES, split)]
        declared = await owner.run("observation_space", _image_sizes, subject.timeout_s)
        for seed, split in seeds:
            actions, seen = await episode(subject, owner, seed, split)
            turns += len(actions)
            ended += seen[-1].terminated
            for size in ((one.width, one.height) for each in seen for one in map(Png, each.images)):
                if size not in declared:
                    raise CheckFailed(
                        f"an observation has a picture of {size[0]} x {size[1]} pixels, and `observation_space` has "
                        f"{', '.join(f'{width} x {height}' for width, height in declared) or 'none'}: `turnwise plan` "
                        "and new models take the size from there, so declare the size that is shown"
                    )
    if not ended:
        return (
            f"{len(seeds)} episodes, {turns} turns: NO EPISODE ENDED BY ITSELF within {TURNS} turns of random actions. "
            "Check that `step` returns `terminated` at the end of a task"
        )
    return f"{len(seeds)} episodes, {turns} turns, {ended} ended by themselves"


def _image_sizes(env: TurnEnv) -> list[tuple[int, int]]:
    return image_sizes(env.observation_space)


async def seed_determinism(subject: Subject) -> str:
    """Check that a seed gives the same first observation: twice in one environment, and in another one."""
    async with subject.pair() as (one, other):
        firsts, seeds = set(), await subject.seeds(one, EPISODES)
        for seed in seeds:
            seen = [await subject.reset(owner, seed) for owner in (one, one, other)]
            for each in seen[1:]:
                if (each.hash, each.state_key) != (seen[0].hash, seen[0].state_key):
                    raise CheckFailed(f"reset(seed={seed}) gave different episodes: {difference(seen[0], each)}")
            firsts.add(seen[0].hash)
    return f"{len(seeds)} seeds, {len(firsts)} different first observations"


async def splits_differ(subject: Subject) -> str:
    """Check that a seed gives different episodes in the two splits.

    They are equal if ``reset`` ignores the split. Whole episodes are compared: instances may begin alike and differ
    later.
    """
    async with subject.made() as owner:
        if not owner.deterministic:
            raise Skipped(NOT_DETERMINISTIC)
        await subject.seeds(owner, EPISODES, "train")
        await subject.seeds(owner, EPISODES, "test")
        train, test = [subject.listed[split] for split in SPLITS]
        pool = next((one for one in (train, test) if one is not None), range(EPISODES))
        seeds = [seed for seed in pool if test is None or seed in test][:EPISODES]
        if not seeds:
            return "no seed is a task of both splits"
        played, valid = set(), False
        for seed in seeds:
            # The same draws choose every action, so that only the instance makes a difference.
            one, other = [await episode(subject, owner, seed, split, action_seed=0) for split in SPLITS]
            if _episode_outcome(*one) != _episode_outcome(*other):
                return f"the episodes of seed {seed} differ"
            played.add(_episode_outcome(*one))
            valid = valid or any(result.action_valid for result in one[1][1:])
        if await owner.run("splits", lambda env: not isinstance(_core(env), TurnEnv), subject.timeout_s):
            raise Skipped("not a `TurnEnv`: training and held-out tasks may differ by their seeds only")
    if len(played) == 1:
        raise Skipped("the episodes of all seeds are equal")
    if not valid:
        raise Skipped("no random action is valid: the episodes do not show the instances")
    raise CheckFailed(
        f"`train` and `test` give equal episodes for all of {len(seeds)} seeds: an evaluation would use "
        'tasks of the training. Let `reset` draw from `options["split"]` too'
    )


async def step_determinism(subject: Subject) -> str:
    """Check that the same actions give the same observation hashes, rewards and ends in a new environment."""
    turns = 0
    async with subject.pair() as (one, other):
        for seed in await subject.seeds(one, EPISODES):
            actions, seen = await episode(subject, one, seed)
            again = [await subject.reset(other, seed)]
            for turn, action in enumerate(actions, 1):
                again.append(await subject.step(other, action))
                if outcome(again[turn]) != outcome(seen[turn]):
                    where = f"seed {seed}, turn {turn}, action {action!r}"
                    raise CheckFailed(f"{where}: replay differs: {difference(seen[turn], again[turn])}")
            turns += len(actions)
    return f"{turns} turns replayed"


async def restored_episodes(subject: Subject) -> str:
    """Check that an episode continues equally after a restore in the same environment and in another one."""
    turns = 0
    async with subject.pair() as (one, other):
        if not one.restorable:
            raise Skipped("declares no snapshots")
        for seed in await subject.seeds(one, EPISODES):
            actions, seen = await episode(subject, one, seed)
            half = len(actions) // 2
            await subject.reset(one, seed)
            for action in actions[:half]:
                await subject.step(one, action)
            if (snapshot := await one.snapshot(subject.timeout_s)) is None:
                continue
            for owner in (one, other, one):
                await owner.restore(snapshot, subject.timeout_s)
                for turn, action in enumerate(actions[half:], half + 1):
                    after = await subject.step(owner, action)
                    if outcome(after) != outcome(seen[turn]):
                        where = f"seed {seed}, turn {turn}, action {action!r}"
                        raise CheckFailed(f"{where}: differs after a restore: {difference(seen[turn], after)}")
            turns += len(actions) - half
    return f"{turns} turns continued from snapshots"


def _episode_outcome(actions: list[str], seen: list[StepResult]) -> tuple[object, ...]:
    return (*actions, *map(outcome, seen), seen[0].state_key)


async def any_text(subject: Subject) -> str:
    """Check that any text of an agent is an outcome, not an exception."""
    flagged = 0
    async with subject.made() as owner:
        (seed,) = await subject.seeds(owner, 1)
        for text in ODD_TEXTS:
            await subject.reset(owner, seed)
            try:
                flagged += not (await subject.step(owner, text)).action_valid
            except EnvTimeout:
                raise
            except EnvError as error:
                raise CheckFailed(f"action {text[:30]!r}: {error}") from error
    return f"{len(ODD_TEXTS)} odd texts, {flagged} marked action_valid=False"


async def reset_after_failure(subject: Subject) -> str:
    """Check that a reset starts clean: in mid-episode, after the end, and after a refused step."""
    async with subject.made() as fresh:
        seeds = await subject.seeds(fresh, 2)
        first, other = seeds[0], seeds[-1]
        expected = await subject.reset(fresh, other)
    async with subject.made() as owner:
        await subject.reset(owner, first)
        await subject.step(owner, await subject.action(owner, random_stream(0)))
        after = {"mid-episode": await subject.reset(owner, other)}
        await episode(subject, owner, first)
        for text in ODD_TEXTS:
            try:
                await subject.step(owner, text)
            except EnvTimeout:
                raise
            except EnvError:
                break
        after["the end"] = await subject.reset(owner, other)
        for where, seen in after.items():
            if owner.deterministic and seen.hash != expected.hash:
                raise CheckFailed(
                    f"reset after {where} differs from the reset of a new environment: {difference(expected, seen)}"
                )
    return "clean in mid-episode, after the end, after odd actions"


async def info_contract(subject: Subject) -> str:
    """Check that ``info`` has the keys that the loop uses; their types are checked at every call."""
    missing: set[str] = set()
    verdicts = 0

    def work(seed: int, env: TurnEnv) -> tuple[set[str], int]:
        rng, lacking, has_verdict = random_stream(seed), set[str](), 0
        _, info = env.reset(seed=seed, options={"split": "train"})
        for _ in range(TURNS):
            lacking |= {"state_key"} - set(info)
            try:
                action = rng.choice(checked_actions(env))[0]
            except NotImplementedError:
                action = str(env.action_space.sample())
            _, _, terminated, truncated, info = env.step(without_thoughts(action))
            lacking |= {"action_valid", "state_key"} - set(info)
            if terminated or truncated:
                has_verdict = int(info.get("success") is not None)
                break
        return lacking, has_verdict

    async with subject.made() as owner:
        seeds = await subject.seeds(owner, EPISODES)
        for seed in seeds:
            lacking, has_verdict = await owner.run("episode", partial(work, seed), subject.timeout_s)
            missing |= lacking
            verdicts += has_verdict
    if missing:
        raise CheckFailed(f"info lacks {', '.join(sorted(missing))}")
    rest = "" if verdicts == len(seeds) else f"; without it, a return of {SUCCESS_RETURN:g} or more counts as a success"
    return f"complete; `success` at the end of {verdicts} of {len(seeds)} episodes{rest}"


def _core(env: TurnEnv) -> gymnasium.Env[Any, Any]:
    """Return the environment itself, without wrappers and without the limit on its turns."""
    return env.core if isinstance(env, Adapted) else env


async def wrappers_declared(subject: Subject) -> str:
    """Check that no wrapper changes actions while the methods about actions are those of the environment inside it.

    Report the methods that a wrapper hides.
    """

    def work(seed: int, env: TurnEnv) -> str:
        if not isinstance(env, Adapted) or env.core is env.inner:
            return "has no wrappers"
        inside = [
            name for name in sorted(ABOUT_ACTIONS) if _provider(env, name) is env.core and overrides(env.core, name)
        ]
        core, received = env.core, list[str]()
        original = core.step

        def step(action: Any) -> Any:
            received.append(action)
            return original(action)

        core.step = step  # type: ignore[method-assign]
        try:
            env.reset(seed=seed, options={"split": "train"})
            drawn = checked_actions(env)[0][0] if "valid_actions" in inside else str(env.action_space.sample())
            sent = without_thoughts(drawn)
            env.step(sent)
        finally:
            core.step = original  # type: ignore[method-assign]
        if inside and received and received[0] != sent:
            raise CheckFailed(
                f"a wrapper changes actions (it passes {received[0]!r:.60} instead of {sent!r:.60}), and "
                f"{', '.join(f'`{name}`' for name in inside)} come from {type(core).__name__} inside it: define them "
                "in the wrapper, with the actions that the agent writes"
            )
        hidden = [f"`{name}` ({cost})" for name, cost in COSTS.items() if _hides(env, name)]
        found = [f"its wrappers hide {', '.join(hidden)}: define them in the outermost wrapper"] if hidden else []
        return "; ".join(["the methods about actions speak of the actions that the agent writes", *found])

    async with subject.made() as owner:
        try:
            (seed,) = await subject.seeds(owner, 1)
            return await owner.run("wrappers", partial(work, seed), subject.timeout_s)
        except EnvError as error:
            if isinstance(error.__cause__, CheckFailed):
                raise error.__cause__ from None
            raise


def _provider(env: Adapted, name: str) -> gymnasium.Env[Any, Any] | None:
    """Return the environment or wrapper whose method counts; None if there is none, or a wrapper keeps it from that."""
    try:
        return env.provider(name)
    except NotImplementedError:
        return None


def _hides(env: Adapted, name: str) -> bool:
    """Return whether the environment has a method, and a wrapper keeps it from being taken."""
    restorable = bool(getattr(env.core, "restorable", False))
    hidden = restorable and not env.restorable if name == "snapshot" else _provider(env, name) is None
    return overrides(env.core, name) and hidden


async def oracle_succeeds(subject: Subject) -> str:
    """Check that the oracle succeeds on the tasks that have one."""
    solved = turns = 0
    async with subject.made() as owner:
        if not await owner.run("oracle", lambda env: provides(env, "oracle"), subject.timeout_s):
            raise Skipped("has no oracle")
        seeds = await subject.seeds(owner, EPISODES, "test")
        for seed in seeds:
            seen = await subject.reset(owner, seed, "test")
            taken = 0
            while taken < 10 * TURNS and not (seen.terminated or seen.truncated):
                try:
                    action = await owner.run("oracle", checked_oracle, subject.timeout_s)
                except EnvError as error:
                    if isinstance(error.__cause__, NotImplementedError):
                        break
                    raise
                seen = await subject.step(owner, action)
                taken += 1
            if taken == 0:
                continue
            if not seen.terminated and not seen.truncated:
                raise CheckFailed(f"the oracle does not end the episode of test seed {seed}, after {taken} actions")
            if seen.success is False or seen.truncated:
                cut = f": the episode was truncated after {taken} turns" if seen.truncated else ""
                raise CheckFailed(f"the oracle fails on test seed {seed}{cut}")
            solved, turns = solved + 1, turns + taken
    if not solved:
        raise Skipped("has no oracle")
    return f"{solved} of {len(seeds)} in {turns / solved:.1f} turns"


async def vocabulary_closed(subject: Subject) -> str:
    """Check that no observation or valid action uses a word outside of the vocabulary, if there is one."""
    async with subject.made() as owner:
        try:
            words = set(await owner.run("vocabulary", checked_vocabulary, subject.timeout_s))
        except EnvError as error:
            if isinstance(error.__cause__, NotImplementedError):
                raise Skipped("has no closed vocabulary") from None
            raise
        used = dict(subject.words)
        for seed in await subject.seeds(owner, EPISODES):
            actions, seen = await episode(subject, owner, seed)
            for word in " ".join([*actions, *(each.text for each in seen)]).split():
                used.setdefault(word, f"the episode of seed {seed}")
    if missing := [word for word in used if word not in words]:
        raise CheckFailed(
            f"{len(missing)} words missing from vocabulary(), the first in {used[missing[0]]}: {', '.join(missing[:8])}"
            f"{', …' if missing[8:] else ''}"
        )
    return f"{len(words)} words"


async def trainable(subject: Subject) -> str:
    """Check whether a run may train on the rewards; skip an environment for evaluation only."""
    async with subject.made() as owner:
        try:
            await owner.run("check_trainable", lambda env: env.check_trainable(), subject.timeout_s)
        except NotTrainable as refusal:
            raise Skipped(f"for evaluation only: {refusal}") from None
    return "no task declares that its rewards can be forged"


async def within_bounds(subject: Subject) -> str:
    """Check that no call of the previous checks took longer than the timeout, and report the largest observation."""
    if not subject.step_ms:
        raise CheckFailed("no step ever returned")
    slowest = max(subject.reset_ms + subject.step_ms)
    if slowest > subject.timeout_s * 1e3:
        raise CheckFailed(f"a call took {slowest:.0f} ms, over the timeout of {subject.timeout_s:g} s")
    words = f"longest observation {len(subject.longest.split())} words in {len(subject.longest)} characters"
    return f"{words}, largest {subject.largest} bytes, slowest call {slowest:.2f} ms"


Check = Callable[[Subject], Awaitable[str]]
RESET = "reset"
CHECKS: dict[str, Check] = {
    RESET: first_reset,
    "tasks": tasks_listed,
    "gymnasium": gymnasium_checker,
    "episodes": episodes_play,
    "seed determinism": seed_determinism,
    "splits": splits_differ,
    "step determinism": step_determinism,
    "random streams": own_random_stream,
    "shared state": episodes_apart,
    "another process": same_in_another_process,
    "restore": restored_episodes,
    "any text": any_text,
    "reset after failure": reset_after_failure,
    "info": info_contract,
    "wrappers": wrappers_declared,
    "oracle": oracle_succeeds,
    "vocabulary": vocabulary_closed,
    "trainable": trainable,
    "process": process_kept,
    "bounds": within_bounds,
}
