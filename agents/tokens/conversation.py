"""The tokens of a conversation: token in, token out, as a tree of messages.

A renderer encodes each message once, and only the tokens that it adds. Sampled turns are kept as token ids and never
encoded again. If the renderer begins the context again, because the template changed earlier text or turns or images
were dropped, a new root begins: a message without parent that holds the whole context, with mask 0.
"""

from collections.abc import Mapping, Sequence
from copy import copy
from dataclasses import dataclass, replace
from math import nan
from typing import Any

from ...records import NO_VERSION, Message, Role, Source
from .renderer import ChatMessage, Image, ImageSpan, Rendered, Renderer


@dataclass(frozen=True, slots=True)
class _Prompt:
    """The context of one turn."""

    message: int
    """Index of its last message in the tree."""
    root: int
    """Index of the root of that message."""
    tokens: int
    messages: int
    """Messages of the conversation, without those of the turn."""


class Conversation:
    """One conversation in progress: before each turn (``act``), ``observe`` or ``add`` renders its ``prompt``."""

    def __init__(self, renderer: Renderer, system: str = "", max_images: int | None = None) -> None:
        """Start a conversation; an empty ``system`` adds no system message.

        Args:
            max_images: images in the context, at most; None for any number. A new one drops the oldest, whose
                observations keep their text.
        """
        self._renderer, self._max_images = renderer, max_images
        self._messages = [ChatMessage(Role.SYSTEM, (system,))] if system else []
        self._prompts: list[_Prompt] = []
        self._previous: Rendered | None = None
        """The last rendering; None if the context must begin again."""
        self._context: list[int] = []
        self._spans: list[ImageSpan] = []
        """The images in the context."""
        self._root = 0
        self._count = 0

    @property
    def reads_images(self) -> bool:
        """Whether observations may have images."""
        return self._renderer.reads_images

    def observe(self, text: str, images: Sequence[Image] = ()) -> Message:
        """Add an observation; return its message as ``add`` does. Images come before the text."""
        return self.add([ChatMessage(Role.USER, (*images, text))])

    def add(self, messages: Sequence[ChatMessage]) -> Message:
        """Add messages that the policy reads; return all tokens between the last turn and the next one as one message.

        Raises:
            ValueError: the renderer cannot hold such a conversation, or the messages have more than ``max_images``.
        """
        kept, count = self._messages, _images(messages)
        if self._max_images is not None:
            if count > self._max_images:
                raise ValueError(f"it has {count} images, and the context holds {self._max_images}")
            kept = self._newest_images(self._max_images - count)
        previous = self._previous if kept is self._messages else None
        rendered = self._renderer.render([*kept, *messages], previous)
        if self._awaits_turn:
            del self._prompts[-1]
        self._messages = [*kept, *messages]
        self._previous = rendered
        if rendered.is_root:
            self._context, self._spans, self._root = [], [], self._count
        start = len(self._context)
        self._spans += [replace(span, offset=start + span.offset) for span in rendered.images]
        shown = self._messages if rendered.is_root else messages
        message = self._message(
            messages[-1].role,
            rendered.tokens,
            parent=None if rendered.is_root else self._count - 1,
            source=Source.TEMPLATE if rendered.is_root else Source.ENV,
            images=tuple(part.blob for one in shown for part in one.content if isinstance(part, Image)),
        )
        self._prompts.append(_Prompt(message.index, self._root, len(self._context), len(self._messages)))
        return message

    def act(self, tokens: Sequence[int], logprobs: Sequence[float], versions: Sequence[int]) -> Message:
        """Add a sampled turn, as the engine reported it.

        Raises:
            ValueError: there is no prompt that it continues, or the three sequences are empty or differ in length.
        """
        if not tokens or not len(tokens) == len(logprobs) == len(versions):
            raise ValueError(
                f"the engine reported {len(tokens)} token ids, {len(logprobs)} log-probabilities and {len(versions)} "
                "versions; each sampled token needs all three"
            )
        return self._turn(list(tokens), Source.POLICY, list(logprobs), list(versions))

    def append_external(self, text: str, source: Source) -> Message:
        """Add a turn that the policy did not sample: encoded once, here, and closed by the end-of-turn token.

        Raises:
            ValueError: there is no prompt that it continues, or ``source`` is the policy.
        """
        if source is Source.POLICY:
            raise ValueError("a sampled turn is added by `act`, as token ids")
        return self._turn(self._renderer.encode_completion(text, escapes=True), source)

    def replace_turns(self, count: int, text: str, source: Source) -> Message:
        """Replace the last ``count`` turns, and the observations between them, with a turn that the policy did not
        sample; return its message, whose parent is the observation before it.

        The messages of the replaced turns are a branch that ends there.

        Raises:
            ValueError: the last observation has no turn, the context holds fewer turns, or ``source`` is the policy.
        """
        kept = len(self._prompts) - count
        if self._awaits_turn or kept < 0 or count < 1:
            complete = len(self._prompts) - self._awaits_turn
            raise ValueError(f"cannot replace {count} turns: the context holds {complete} complete turns")
        del self._prompts[kept + 1 :]
        prompt = self._prompts[-1]
        del self._messages[prompt.messages :], self._context[prompt.tokens :]
        self._spans = [span for span in self._spans if span.offset < prompt.tokens]
        if prompt.root != self._root:
            self._previous = None
        return self.append_external(text, source)

    def drop_oldest_turns(self, turns: int) -> None:
        """Drop the oldest ``turns`` turns, each with its observation; the next ``observe`` begins a new root.

        Raises:
            ValueError: the context holds fewer complete turns.
        """
        complete = len(self._prompts) - self._awaits_turn
        if not 0 <= turns <= complete:
            raise ValueError(f"cannot drop {turns} turns: the context holds {complete} complete turns")
        if turns:
            first = int(self._messages[0].role is Role.SYSTEM)
            dropped = self._prompts[turns - 1].messages + 1 - first
            del self._messages[first : first + dropped]
            self._prompts = [replace(prompt, messages=prompt.messages - dropped) for prompt in self._prompts[turns:]]
            self._previous = None

    def snapshot(self) -> Mapping[str, Any]:
        """Return the conversation so far as a value that can be pickled and that later turns do not change."""
        return {name: copy(value) for name, value in vars(self).items() if name != "_renderer"}

    def restore(self, snapshot: Mapping[str, Any]) -> None:
        """Continue the conversation of a snapshot, with its messages and their indices. The renderers of both are those
        of one model folder."""
        vars(self).update({name: copy(value) for name, value in snapshot.items()})

    def prompt(self) -> list[int]:
        """Return the token ids to send to the engine."""
        return self._context.copy()

    def images(self) -> list[ImageSpan]:
        """Return the images in the prompt."""
        return self._spans.copy()

    def image_size(self, image: Image) -> tuple[int, ...]:
        """Return the width and the height that the image processor gives an image, in pixels."""
        return self._renderer.image_size(image)

    def text(self, tokens: Sequence[int]) -> str:
        """Return the action that the token ids of a turn spell."""
        return self._renderer.parse(tokens).text

    def _newest_images(self, count: int) -> list[ChatMessage]:
        """Return the messages so far with their ``count`` newest images."""
        messages, excess = list[ChatMessage](), _images(self._messages) - count
        if excess <= 0:
            return self._messages
        for message in self._messages:
            content = list[str | Image]()
            for part in message.content:
                if excess > 0 and isinstance(part, Image):
                    excess -= 1
                else:
                    content.append(part)
            messages.append(replace(message, content=content))
        return messages

    @property
    def _awaits_turn(self) -> bool:
        return bool(self._prompts) and self._prompts[-1].messages == len(self._messages)

    def _turn(
        self, tokens: list[int], source: Source, logprobs: list[float] | None = None, versions: list[int] | None = None
    ) -> Message:
        if not self._awaits_turn:
            raise ValueError("no observation since the last turn: call `observe` before `act`")
        self._messages.append(ChatMessage(Role.ASSISTANT, tokens=tokens))
        return self._message(
            Role.ASSISTANT, tokens, self._prompts[-1].message, source, logprobs=logprobs, versions=versions
        )

    def _message(
        self,
        role: Role,
        tokens: list[int],
        parent: int | None,
        source: Source,
        *,
        images: Sequence[str] = (),
        logprobs: list[float] | None = None,
        versions: list[int] | None = None,
    ) -> Message:
        size, index = len(tokens), self._count
        self._context += tokens
        self._count += 1
        return Message(
            index=index,
            parent=parent,
            role=role,
            source=source,
            tokens=tokens,
            mask=[0 if logprobs is None else 1] * size,
            logprobs=[nan] * size if logprobs is None else logprobs,
            versions=[NO_VERSION] * size if versions is None else versions,
            images=images,
        )


def _images(messages: Sequence[ChatMessage]) -> int:
    return sum(isinstance(part, Image) for message in messages for part in message.content)
