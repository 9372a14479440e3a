"""Token bookkeeping of a conversation: token in, token out, through the model's chat template.

Each message is rendered once, and only the text that it adds is encoded. Sampled turns are kept as token ids and never
encoded again. The rules:

* In the rendering, each assistant turn is enclosed in two private markers. If the new rendering begins with the old one
  followed by the unchanged turn, the template only appended, and only the text after the turn is encoded. That text
  begins with the template's closing of the turn. Its end-of-turn token is omitted if the policy sampled it, and added
  with mask 0 if generation was cut.
* If the template changed earlier text (for example, it strips earlier reasoning), or the oldest turns were dropped, a
  new root begins: a message without parent that holds the whole context, with mask 0. For each earlier turn it keeps
  the sampled ids of the part that the template kept, from the first boundary between two tokens.
* An observation cannot inject a control token; see ``encoding``.

A template that is proven to only append (``template``) costs one short encoding per turn.
"""

import secrets
from collections.abc import Mapping, Sequence
from copy import copy
from dataclasses import dataclass
from math import nan
from pathlib import Path
from typing import Any

from ...records import NO_VERSION, Message, Role, Source
from ..errors import UnusableChat
from .encoding import Encoder, load_tokenizer
from .stop_tokens import stops_of
from .template import THOUGHT_END, Template, TurnAffixes


class Chat:
    """The tokenizer and chat template of a model folder; creates any number of independent conversations.

    Raises:
        FileNotFoundError: the folder does not exist.
        UnusableChat: the tokenizer cannot be read or has no fast form, there is no chat template, or the template
            cannot hold a conversation.
    """

    def __init__(self, tokenizer_path: str | Path) -> None:
        if not Path(tokenizer_path).is_dir():
            raise FileNotFoundError(f"no model folder at {tokenizer_path}")
        folder = Path(tokenizer_path)
        try:
            tokenizer = load_tokenizer(folder)
            if not tokenizer.is_fast:
                raise UnusableChat("it has no fast tokenizer (`tokenizer.json`)")
            self.encoder = Encoder(tokenizer)
            self.template = Template(tokenizer)
            self.stop_tokens = stops_of(folder, tokenizer, self.encoder, self.template)
        except UnusableChat as error:
            raise UnusableChat(f"`{folder}`: {error}") from error
        """Token ids that end a turn."""
        self._affixes: dict[bool, TurnAffixes | None] = {}

    def begin(self, system: str = "") -> "Conversation":
        """Start a conversation; an empty ``system`` adds no system message."""
        return Conversation(self, system)

    def sample_ids(self) -> list[int]:
        """Return the token ids of a conversation of two observations and a turn, with instructions."""
        return self.encoder.encode(self.template.render("s", ["o", "p"], ["a"]), {}, start=True)

    def encode_completion(self, text: str) -> list[int]:
        """Return the token ids of a turn that the policy did not sample, closed by the end-of-turn token."""
        text = self.template.without_opening(text)
        return [*self.encoder.encode(text, {}, start=False), *self.stop_tokens[:1]]

    def turn_text(self, tokens: Sequence[int]) -> str:
        """Return the text of a turn, without control tokens and without the stop token that ends it.

        A tokenizer that lists the stop token as an ordinary added token would decode it as text.
        """
        ended = bool(tokens) and tokens[-1] in self.stop_tokens
        return self.encoder.decode(tokens[:-1] if ended else tokens)

    def turn_affixes(self, system: bool) -> TurnAffixes | None:
        """Return the text that the template puts around an observation; None if the template is not proven to only
        append."""
        if system not in self._affixes:
            self._affixes[system] = self.template.probe(system)
        return self._affixes[system]


@dataclass(frozen=True, slots=True)
class _Turn:
    """One assistant turn: its token ids, their text, and the two markers around that text in the rendering."""

    tokens: list[int]
    start: str
    text: str
    end: str

    @property
    def marked(self) -> str:
        return self.start + self.text + self.end


class Conversation:
    """One conversation in progress: ``observe`` and ``act`` alternate, with ``prompt`` between them."""

    def __init__(self, chat: Chat, system: str) -> None:
        self._chat = chat
        self._system = system
        self._affixes = chat.turn_affixes(bool(system))
        self._mark = f"\ue000{secrets.token_hex(4)}"
        self._observations: list[str] = []
        self._turns: list[_Turn] = []
        self._ends: list[tuple[int, int]] = []
        """Per observation, the index of its message and the tokens of the context up to its end."""
        self._escaped: dict[str, str] = {}
        self._rendered: str | None = None
        """The rendering up to the last observation; None if it must be rendered again."""
        self._context: list[int] = []
        self._count = 0

    def observe(self, text: str, images: Sequence[str] = ()) -> Message:
        """Add an observation, and return its message: all tokens between the last sampled token and the next one.

        Raises:
            ValueError: no turn followed the previous observation, or images were given (text only).
        """
        if images:
            raise ValueError("this policy reads text only, and the observation contains images")
        if len(self._turns) < len(self._observations):
            raise ValueError("two observations in a row: call `act` with the policy's turn first")
        escaped: dict[str, str] = {}
        observation = self._chat.encoder.escape_special_tokens(text, f"{self._mark}m{self._count}_", escaped)
        self._escaped |= escaped
        self._observations.append(observation)
        if self._rendered is not None and self._affixes is not None:
            added = self._affixes.before + observation + self._affixes.after
        else:
            previous, self._rendered = self._rendered, self._render()
            appended = None if previous is None else self._appended(previous, self._rendered)
            if appended is None:
                self._context = []
                root = self._message(Role.USER, self._reroot(self._rendered), root=True, source=Source.TEMPLATE)
                return self._observed(root)
            added = appended
        added = self._chat.encoder.after_stop(added, self._turns[-1].tokens[-1])
        ids = self._chat.encoder.encode(added, escaped, start=False)
        return self._observed(self._message(Role.USER, ids, source=Source.ENV))

    def act(self, tokens: Sequence[int], logprobs: Sequence[float], versions: Sequence[int]) -> Message:
        """Add a sampled turn, as the engine reported it.

        Raises:
            ValueError: there is no observation to answer, or the three sequences are empty or differ in length.
        """
        if not tokens or not len(tokens) == len(logprobs) == len(versions):
            raise ValueError(
                f"the engine reported {len(tokens)} token ids, {len(logprobs)} log-probabilities and {len(versions)} "
                "versions; each sampled token needs all three"
            )
        ids = self._answer(tokens)
        return self._message(Role.ASSISTANT, ids, logprobs=list(logprobs), versions=list(versions))

    def append_external(self, text: str, source: Source) -> Message:
        """Add a turn that the policy did not sample: encoded once, here, and closed by the end-of-turn token.

        Raises:
            ValueError: there is no observation to answer, or ``source`` is the policy.
        """
        if source is Source.POLICY:
            raise ValueError("a sampled turn is added by `act`, as token ids")
        encoder, escaped = self._chat.encoder, dict[str, str]()
        text = self._chat.template.without_opening(text)
        marked = encoder.escape_special_tokens(text, f"{self._mark}m{self._count}_", escaped)
        ids = self._answer([*encoder.encode(marked, escaped, start=False), *self._chat.stop_tokens[:1]])
        return self._message(Role.ASSISTANT, ids, source=source, parent=self._ends[-1][0])

    def replace_turns(self, count: int, text: str, source: Source) -> Message:
        """Replace the last ``count`` turns, and the observations between them, with a turn that the policy did not
        sample; return its message, whose parent is the observation before it.

        The messages of the replaced turns are a branch that ends there.

        Raises:
            ValueError: the last observation has no turn, the context holds fewer turns, or ``source`` is the policy.
        """
        kept = len(self._turns) - count
        if len(self._turns) < len(self._observations) or kept < 0 or count < 1:
            raise ValueError(f"cannot replace {count} turns: the context holds {len(self._turns)} complete turns")
        del self._observations[kept + 1 :], self._turns[kept:], self._ends[kept + 1 :]
        del self._context[self._ends[-1][1] :]
        if count > 1 and self._affixes is None:
            self._rendered = None
        return self.append_external(text, source)

    def snapshot(self) -> Mapping[str, Any]:
        """Return the conversation so far as a value that can be pickled and that later turns do not change."""
        return {name: copy(value) for name, value in vars(self).items() if name != "_chat"}

    def restore(self, snapshot: Mapping[str, Any]) -> None:
        """Continue the conversation of a snapshot, with its messages and their indices. The chat of both has the same
        tokenizer and template."""
        vars(self).update({name: copy(value) for name, value in snapshot.items()})

    def drop_oldest_turns(self, turns: int) -> None:
        """Drop the oldest ``turns`` turns, each with its observation; the next ``observe`` begins a new root.

        Raises:
            ValueError: the context holds fewer complete turns.
        """
        if not 0 <= turns <= len(self._turns):
            raise ValueError(f"cannot drop {turns} turns: the context holds {len(self._turns)} complete turns")
        if turns:
            del self._observations[:turns], self._turns[:turns], self._ends[:turns]
            self._rendered = None

    def prompt(self) -> list[int]:
        """Return the token ids to send to the engine."""
        return self._context.copy()

    def text(self, tokens: Sequence[int]) -> str:
        """Return the action that ``tokens`` spell, without control tokens and the stop token that ends them.

        It begins with the ``<think>`` that the template put before it if the turn has the end of that reasoning, or was
        cut before it.
        """
        text, template = self._chat.turn_text(tokens), self._chat.template
        reasons = THOUGHT_END in text or tokens[-1] not in self._chat.stop_tokens
        return template.opening + template.without_opening(text) if text and reasons else text

    def _answer(self, tokens: Sequence[int]) -> list[int]:
        if len(self._turns) == len(self._observations):
            raise ValueError("no observation since the last turn: call `observe` before `act`")
        ids, mark = list(tokens), f"{self._mark}{self._count}"
        self._turns.append(_Turn(ids, f"{mark}s\ue001", self._chat.turn_text(ids), f"{mark}e\ue001"))
        return ids

    def _observed(self, message: Message) -> Message:
        self._ends.append((message.index, len(self._context)))
        return message

    def _message(
        self,
        role: Role,
        tokens: list[int],
        *,
        root: bool = False,
        parent: int | None = None,
        source: Source = Source.POLICY,
        logprobs: list[float] | None = None,
        versions: list[int] | None = None,
    ) -> Message:
        size = len(tokens)
        self._context += tokens
        self._count += 1
        return Message(
            index=self._count - 1,
            parent=None if root else self._count - 2 if parent is None else parent,
            role=role,
            source=source,
            tokens=tokens,
            mask=[0 if logprobs is None else 1] * size,
            logprobs=[nan] * size if logprobs is None else logprobs,
            versions=[NO_VERSION] * size if versions is None else versions,
        )

    def _render(self) -> str:
        return self._chat.template.render(self._system, self._observations, [turn.marked for turn in self._turns])

    def _appended(self, previous: str, rendered: str) -> str | None:
        """Return the text that the template added after the last turn; None if it changed earlier text.

        White space that the template puts before a turn, but not after the generation prompt, is ignored: the policy
        samples its own.
        """
        gap, found, added = rendered.removeprefix(previous).partition(self._turns[-1].marked)
        return added if rendered.startswith(previous) and found and not gap.strip() else None

    def _reroot(self, rendered: str) -> list[int]:
        """Return the token ids of the whole context; keep sampled ids wherever the template kept their text."""
        ids, last = list[int](), None
        for turn in self._turns:
            before, found, after = rendered.partition(turn.end)
            if not found:
                rendered = rendered.replace(turn.start, "")
                continue
            gap, intact, kept = before.partition(turn.start)
            tokens = turn.tokens
            if not intact or kept != turn.text:
                gap, tokens = self._common_suffix(gap + kept, turn.tokens)
            ids += self._encode_gap(gap, last, start=not ids) + tokens
            last, rendered = turn.tokens[-1], after
        return ids + self._encode_gap(rendered, last, start=not ids)

    def _encode_gap(self, text: str, last: int | None, *, start: bool) -> list[int]:
        text = text if last is None else self._chat.encoder.after_stop(text, last)
        return self._chat.encoder.encode(text, self._escaped, start=start)

    def _common_suffix(self, text: str, tokens: list[int]) -> tuple[str, list[int]]:
        """Split ``text`` into the part before the longest suffix that ``tokens`` spell, and the token ids of that
        suffix."""
        low, high = 0, len(tokens)
        while low < high:
            middle = (low + high) // 2
            if text.endswith(self._chat.turn_text(tokens[middle:])):
                high = middle
            else:
                low = middle + 1
        tail = self._chat.turn_text(tokens[low:])
        return text[: len(text) - len(tail)], tokens[low:]
