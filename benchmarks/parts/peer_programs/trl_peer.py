"""Train TextSite with TRL's GRPO, or evaluate model folders; run by the Python of ``.venv-trl``.

The rollouts are a hand-written batched loop (TRL's ``rollout_func``): all episodes of a batch play in lockstep, and
the key-value cache is kept between turns. That is the fastest of TRL's ways to play many turns on a CPU.

The defaults are the best of what was tried in an environment without delay: on seed 0, ``--learning-rate`` 1e-3 and
2e-3, ``--scale-rewards`` ``none`` and ``batch``, ``--loss`` ``dapo`` and ``sapo``, one optimizer step on eight groups
of eight, and two and four on ten groups of four; on seeds 0 to 2, ``--max-grad-norm`` 1.0 and 0.3. With TRL's own
defaults, ``--scale-rewards group`` and ``--warmup 0``, it did not reach 85 % held out: where all episodes fail, they
make the penalty of an invalid action a full advantage.

``train`` saves the weights every few updates and prints a JSON object: the update, training seconds and folder of each.
``evaluate`` reads lines of JSON, ``{"folder": ...}``, and answers each with the success on the tasks of ``--tasks``.
"""

import argparse
import json
import random
import sys
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from transformers import AutoModelForCausalLM, AutoTokenizer, DynamicCache
from turnwise.benchmarks.parts.delayed_site import DelayedSite

MAX_TURNS = 12
MAX_TOKENS = 4
"""Most sampled tokens per turn."""
MAX_CONTEXT = 512
WEIGHTS = {"find": 1.5, "login": 1.0, "open": 1.0}


@dataclass
class Episode:
    """One episode: its tokens, which of them were sampled, and its rewards."""

    env: DelayedSite
    prompt: list[int] = field(default_factory=list)
    tokens: list[int] = field(default_factory=list)
    """All tokens after the first observation."""
    sampled: list[int] = field(default_factory=list)
    """1 for each sampled token, else 0."""
    logprobs: list[float] = field(default_factory=list)
    reward: float = 0.0
    success: bool = False
    turn: list[int] = field(default_factory=list)
    """Sampled tokens of the current turn."""
    unread: list[int] = field(default_factory=list)
    """Tokens that the model has not read yet."""

    def add(self, token: int, sampled: bool, logprob: float = 0.0) -> None:
        """Append a token that follows the first observation."""
        self.tokens.append(token)
        self.sampled.append(int(sampled))
        self.logprobs.append(logprob)


class Batch:
    """The key-value cache of the episodes that still play. Rows are padded inside, and the mask leaves padding out."""

    def __init__(self, model: Any, rows: int) -> None:
        self._model = model
        self._cache = DynamicCache(config=model.config)
        self._mask = torch.zeros((rows, 0), dtype=torch.long)

    def read(self, tokens: Sequence[Sequence[int]]) -> Tensor:
        """Append tokens to each row, and return the log-probabilities of the next one. Shape (rows, vocabulary)."""
        width = max(len(token) for token in tokens)
        ids = torch.tensor([[0] * (width - len(token)) + list(token) for token in tokens])
        new = torch.tensor([[0] * (width - len(token)) + [1] * len(token) for token in tokens])
        self._mask = torch.cat([self._mask, new], 1)
        positions = (self._mask.cumsum(1) - 1).clamp(min=0)[:, -width:]
        output = self._model(
            input_ids=ids,
            attention_mask=self._mask,
            position_ids=positions,
            past_key_values=self._cache,
            use_cache=True,
            logits_to_keep=1,
        )
        return torch.log_softmax(output.logits[:, -1].float(), -1)

    def keep(self, rows: Sequence[int]) -> None:
        """Drop all other rows."""
        index = torch.tensor(rows)
        self._cache.batch_select_indices(index)
        self._mask = self._mask[index]


class Player:
    """Plays episodes with a model, all in lockstep."""

    def __init__(self, model: Any, tokenizer: Any, mean_ms: float, episodes: int) -> None:
        """Play ``episodes`` at most at once, with delays of ``mean_ms`` per turn."""
        self._model = model
        self._tokenizer = tokenizer
        self._stop = tokenizer.eos_token_id
        self._mean_ms = mean_ms
        self._threads = ThreadPoolExecutor(episodes) if mean_ms else None

    def _encode(self, text: str) -> list[int]:
        return list(self._tokenizer.encode(text, add_special_tokens=False))

    @torch.inference_mode()
    def play(self, tasks: Sequence[tuple[str, int]], split: str) -> list[Episode]:
        """Play one episode per task, a family and a seed."""
        episodes = []
        for family, seed in tasks:
            one = Episode(DelayedSite(family, self._mean_ms))
            observation, _ = one.env.reset(seed=seed, options={"split": split})
            one.prompt = self._encode(str(observation))
            one.unread = list(one.prompt)
            episodes.append(one)
        batch, playing = Batch(self._model, len(episodes)), episodes
        for _ in range(MAX_TURNS):
            self._sample(batch, playing)
            playing = self._step(batch, playing)
            if not playing:
                break
        return episodes

    def _sample(self, batch: Batch, playing: Sequence[Episode]) -> None:
        """Sample a turn of each episode."""
        for one in playing:
            one.turn = []
        waiting = list(playing)
        for _ in range(MAX_TOKENS):
            logprobs = batch.read([one.unread for one in playing])
            drawn = torch.multinomial(logprobs.exp(), 1)
            chosen = logprobs.gather(1, drawn)[:, 0].tolist()
            for one, token, logprob in zip(playing, drawn[:, 0].tolist(), chosen, strict=True):
                one.unread = []
                if one.turn and one.turn[-1] == self._stop:
                    continue
                one.turn.append(token)
                one.add(token, True, logprob)
                one.unread = [token]
            waiting = [one for one in waiting if one.turn[-1] != self._stop]
            if not waiting:
                break

    def _step(self, batch: Batch, playing: Sequence[Episode]) -> list[Episode]:
        """Step each environment, and return the episodes that go on."""
        texts = self._tokenizer.batch_decode([one.turn for one in playing], skip_special_tokens=True)
        pairs = list(zip(playing, texts, strict=True))
        step = self._threads.map if self._threads else map
        results = list(step(lambda pair: pair[0].env.step(pair[1]), pairs))
        kept = []
        for row, (one, (observation, reward, terminated, _, info)) in enumerate(zip(playing, results, strict=True)):
            one.reward += reward
            one.success = bool(info["success"])
            if terminated:
                continue
            added = [] if one.turn[-1] == self._stop else [self._stop]
            added += self._encode(str(observation))
            if len(one.prompt) + len(one.tokens) + len(added) + MAX_TOKENS > MAX_CONTEXT:
                continue
            one.unread = one.unread + added
            for token in added:
                one.add(token, False)
            kept.append(row)
        if kept and len(kept) < len(playing):
            batch.keep(kept)
        return [playing[row] for row in kept]


def load(folder: str) -> tuple[Any, Any]:
    """Return the model and tokenizer of a folder."""
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32, attn_implementation="sdpa")
    return model, AutoTokenizer.from_pretrained(folder)


def train(args: argparse.Namespace) -> None:
    """Train for ``--seconds``, and print when which weights were saved."""
    from datasets import Dataset
    from transformers import TrainerCallback
    from trl import GRPOConfig, GRPOTrainer

    torch.manual_seed(args.seed)
    model, tokenizer = load(args.model)
    size = args.groups * args.group_size
    player = Player(model, tokenizer, args.mean_ms, size)
    draws = random.Random(args.seed)  # noqa: S311 - draws tasks only
    families = draws.choices(list(WEIGHTS), list(WEIGHTS.values()), k=200_000)
    rows = [{"prompt": f"{family} {draws.randrange(2**31)}"} for family in families]
    saved: list[dict[str, Any]] = []
    begun = 0.0

    def rollouts(prompts: list[str], trainer: GRPOTrainer) -> dict[str, Any]:
        tasks = [(family, int(seed)) for family, seed in (one.split() for one in prompts)]
        model.eval()
        episodes = player.play(tasks, "train")
        model.train()
        return {
            "prompt_ids": [episode.prompt for episode in episodes],
            "completion_ids": [episode.tokens for episode in episodes],
            "logprobs": [episode.logprobs for episode in episodes],
            "env_mask": [episode.sampled for episode in episodes],
            "episode_reward": [episode.reward for episode in episodes],
        }

    class Clock(TrainerCallback):
        paused = 0.0

        def on_step_end(self, args_: Any, state: Any, control: Any, **_: Any) -> Any:
            seconds = time.monotonic() - begun - self.paused
            update, step = divmod(state.global_step, args.minibatches)
            if step == 0 and update % args.every == 0:
                folder = Path(args.out) / str(update)
                model.save_pretrained(folder)
                tokenizer.save_pretrained(folder)
                saved.append({"update": update, "seconds": seconds, "folder": str(folder)})
                self.paused = time.monotonic() - begun - seconds
            control.should_training_stop = seconds > args.seconds
            return control

    settings = GRPOConfig(
        output_dir=args.out,
        seed=args.seed,
        use_cpu=True,
        bf16=False,
        learning_rate=args.learning_rate,
        lr_scheduler_type="constant_with_warmup",
        warmup_steps=args.warmup,
        adam_beta2=args.beta2,
        max_grad_norm=args.max_grad_norm,
        scale_rewards=args.scale_rewards,
        per_device_train_batch_size=size // args.minibatches,
        num_generations=args.group_size,
        steps_per_generation=args.minibatches,
        max_completion_length=MAX_CONTEXT,
        beta=0.0,
        loss_type=args.loss,
        entropy_coef=args.entropy,
        max_steps=100_000,
        logging_strategy="no",
        save_strategy="no",
        report_to="none",
        disable_tqdm=True,
        gradient_checkpointing=False,
    )
    trainer = GRPOTrainer(
        model=model,
        processing_class=tokenizer,
        reward_funcs=lambda episode_reward, **_: episode_reward,
        args=settings,
        train_dataset=Dataset.from_list(rows),
        rollout_func=rollouts,
        callbacks=[Clock()],
    )
    begun = time.monotonic()
    trainer.train()
    print(json.dumps(saved), flush=True)


def evaluate(args: argparse.Namespace) -> None:
    """Answer each line of the input with the success of a folder's weights."""
    tasks = [(family, seed) for family, seed in json.loads(Path(args.tasks).read_text())]
    for line in sys.stdin:
        torch.manual_seed(0)
        played = Player(*load(json.loads(line)["folder"]), 0.0, len(tasks)).play(tasks, "test")
        print(json.dumps({"success": sum(one.success for one in played) / len(played)}), flush=True)


def main() -> None:
    """Run the command."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("command", choices=("train", "evaluate"))
    parser.add_argument("--model", help="folder of the weights to start from")
    parser.add_argument("--out", help="folder for the saved weights")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--seconds", type=float, default=150.0)
    parser.add_argument("--mean-ms", type=float, default=0.0, help="mean delay per turn")
    parser.add_argument("--every", type=int, default=5, help="updates between saved weights")
    parser.add_argument("--groups", type=int, default=10, help="groups per update")
    parser.add_argument("--group-size", type=int, default=4, help="episodes per group")
    parser.add_argument("--minibatches", type=int, default=2, help="optimizer steps per update")
    parser.add_argument("--learning-rate", type=float, default=1e-3)
    parser.add_argument("--entropy", type=float, default=0.005)
    parser.add_argument("--warmup", type=int, default=10, help="optimizer steps over which the learning rate rises")
    parser.add_argument("--beta2", type=float, default=0.95)
    parser.add_argument("--max-grad-norm", type=float, default=0.3)
    parser.add_argument("--scale-rewards", choices=("group", "batch", "none"), default="none")
    parser.add_argument("--loss", default="dapo", help="the loss of TRL by name")
    parser.add_argument("--tasks", help="JSON file of held-out tasks: pairs of family and seed")
    args = parser.parse_args()
    torch.set_num_threads(2)
    (train if args.command == "train" else evaluate)(args)


if __name__ == "__main__":
    main()
