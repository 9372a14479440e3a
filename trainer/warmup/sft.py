"""Warm up a model by supervised training on random valid actions, on those of the oracle, or on stored demonstrations.

From random actions, a new model learns the syntax of actions and which words occur together, but nothing about solving
tasks. Observations are predicted too, with a small weight. Batches are small, because many small steps train better
than few large ones. The target of an action token is the exact next-token distribution of the policy that plays, not
the one action it drew.
"""

from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import islice
from math import ceil
from random import Random
from time import monotonic

from ...agents.tokens.conversation import Conversation
from ...agents.tokens.renderer import Image, Renderer
from ...envs.base import TurnEnv, checked_actions
from ...envs.errors import EnvironmentBroken
from ...envs.runner.observations import instructions, split
from ...envs.runner.thoughts import without_thoughts
from ...envs.sandboxes import any_sandboxed
from ...records import Horizon, SampleImage
from ..config.sections import EnvironmentConfig, SftWarmupConfig
from ..learner.backends.base import LearnerBackend
from ..learner.sft import SftExample
from ..telemetry.progress import INTERVAL_S
from .random_episodes import Episode, PlayEpisode, random_episodes

Actions = Callable[[TurnEnv], Sequence[tuple[str, float]]]


def right_action(env: TurnEnv) -> Sequence[tuple[str, float]]:
    """Return the action of the environment's oracle, with the weight of a certain one.

    Raises:
        EnvironmentBroken: it is not a text.
    """
    action = env.oracle()
    if not isinstance(action, str):
        kind = type(action).__name__
        raise EnvironmentBroken(f"oracle() of {type(env).__name__} returned {kind} {action!r:.80}; an action is a text")
    return [(action, 1.0)]


def policy_of(
    renderer: Renderer, horizon: Horizon, max_images: int | None = None, actions: Actions = checked_actions
) -> PlayEpisode:
    """Return a function that plays an episode within the horizon with random actions among ``actions``.

    An episode with more images than ``max_images`` has several contexts, as those of ``Conversation``: each turn is
    learned in the one that it was played in, and the observations of the first one alone.

    It raises ``EnvironmentBroken`` on a valid action that the policy cannot write.
    """

    @cache
    def encode(action: str) -> list[int]:
        if not renderer.encoder.is_complete(action):
            raise EnvironmentBroken(
                f"the tokenizer has no token for a word of the valid action {action!r}, so no policy can take it; add "
                "all words of actions to `vocabulary()`"
            )
        return renderer.encode_completion(action)

    def play(env: TurnEnv, seed: int, rng: Random, heartbeat: Callable[[], None]) -> Episode:
        heartbeat()
        observation, _ = env.reset(seed=seed, options={"split": "train"})
        conversation = Conversation(renderer, instructions(env), max_images)
        episode, contents = list[SftExample](), dict[str, bytes]()
        for _ in range(horizon.max_turns):
            text, pictures = split(observation)
            shown = [Image.of(one) for one in pictures]
            contents |= {image.blob: picture for image, picture in zip(shown, pictures, strict=True)}
            message = conversation.observe(text, shown)
            if message.parent is None:
                episode.append(SftExample([], []))
            example, begins_again = episode[-1], message.parent is None and len(episode) > 1
            example.images = [
                SampleImage(span.blob, span.offset, span.length, contents[span.blob]) for span in conversation.images()
            ]
            example.ids += message.tokens
            example.targets += [{} if begins_again else None] * len(message.tokens)
            valid = actions(env)
            encoded = [(encode(text), weight) for text, weight in valid]
            chosen = rng.choices(range(len(valid)), [weight for _, weight in valid])[0]
            ids = encoded[chosen][0]
            if len(example.ids) + len(ids) > horizon.max_context:
                break
            example.targets += [next_token(encoded, ids[:depth]) for depth in range(len(ids))]
            example.ids += ids
            conversation.act(ids, [0.0] * len(ids), [0] * len(ids))
            heartbeat()
            observation, _, terminated, truncated, _ = env.step(without_thoughts(valid[chosen][0]))
            if terminated or truncated:
                break
        return episode

    return play


def next_token(actions: Sequence[tuple[Sequence[int], float]], prefix: Sequence[int]) -> dict[int, float]:
    """Return the distribution of the token after ``prefix``, where whole actions are drawn by weight."""
    mass: dict[int, float] = {}
    depth = len(prefix)
    for ids, weight in actions:
        if len(ids) > depth and list(ids[:depth]) == list(prefix):
            mass[ids[depth]] = mass.get(ids[depth], 0.0) + weight
    total = sum(mass.values())
    return {token: weight / total for token, weight in mass.items()}


def resampled(source: Generator[Episode], count: int, rng: Random) -> Iterator[Episode]:
    """Yield the first ``count`` episodes of ``source``, then random ones of these without end; of none, nothing."""
    kept = []
    for one in islice(source, count):
        kept.append(one)
        yield one
    source.close()
    while kept:
        yield rng.choice(kept)


SANDBOXED_EPISODES = 200
"""The default of ``sft_warmup.episodes`` if an environment leases a sandbox."""


def episodes_to_play(config: SftWarmupConfig, environments: Sequence[EnvironmentConfig]) -> int:
    """Return the number of episodes that the warm-up plays; 0 if it plays new ones for each batch."""
    if config.episodes is not None:
        return config.episodes
    return SANDBOXED_EPISODES if any_sandboxed(one.id for one in environments) else 0


@dataclass(slots=True)
class RemainingTime:
    """Estimates the time that remains from that of the steps so far: batches are drawn for free once all episodes were
    played."""

    steps: int
    playing_steps: int
    """Steps whose batches are played."""
    done: int = 0
    play_s: float = 0.0
    fit_s: float = 0.0

    def add(self, play_s: float, fit_s: float) -> None:
        """Count a step."""
        self.done += 1
        self.play_s += play_s
        self.fit_s += fit_s

    def seconds(self) -> float:
        """Return the seconds that remain; at least one step was counted."""
        played = min(self.done, self.playing_steps)
        playing = max(0, self.playing_steps - self.done) * self.play_s / max(played, 1)
        return playing + (self.steps - self.done) * self.fit_s / self.done


def warm_up(
    learner: LearnerBackend,
    renderer: Renderer,
    environments: Sequence[EnvironmentConfig],
    horizon: Horizon,
    max_images: int,
    config: SftWarmupConfig,
    seed: int,
    timeout_s: float = 30.0,
    report: Callable[[str], None] = lambda text: None,
    stopped: Callable[[], bool] = lambda: False,
    *,
    actions: Actions = checked_actions,
    stored: Sequence[Episode] = (),
) -> float:
    """Train the learner's model and return the last loss. The learning rate falls linearly to 0.

    Args:
        actions: those that the environments are played with.
        stored: episodes to train on instead of playing.
        max_images: images in a context, at most.
        timeout_s: limit for one call of an environment.
        report: called with lines about progress and excluded environments.
        stopped: no further step begins once it returns True.

    Raises:
        NoPlayableEnvironment: no environment can be played.
    """
    rng = Random(seed)  # noqa: S311 - reproducible, not secret
    policy = policy_of(renderer, horizon, max_images, actions)
    played = random_episodes(environments, policy, rng, timeout_s, report, stopped)
    source: Iterator[Episode] = played
    playing_steps = config.steps
    if stored:
        source, playing_steps = _shuffled(stored, rng), 0
    elif episodes := episodes_to_play(config, environments):
        source = resampled(played, episodes, Random(seed))  # noqa: S311
        playing_steps = min(config.steps, ceil(episodes / config.batch_size))
    left = RemainingTime(config.steps, playing_steps)
    last_loss, last_report = float("nan"), monotonic()
    for step in range(config.steps):
        learning_rate = config.learning_rate * (1 - step / config.steps)
        began = monotonic()
        batch = [example for episode in islice(source, config.batch_size) for example in episode]
        if stopped():
            break
        drawn = monotonic()
        last_loss = learner.fit(batch, learning_rate, config.observation_weight)
        left.add(drawn - began, (now := monotonic()) - drawn)
        if now - last_report > INTERVAL_S:
            last_report = now
            report(f"warm-up: {step + 1} of {config.steps} steps; about {left.seconds():.0f} s remain")
    return last_loss


def _shuffled(episodes: Sequence[Episode], rng: Random) -> Iterator[Episode]:
    """Yield all episodes in random order, again and again."""
    while True:
        yield from rng.sample(episodes, len(episodes))
