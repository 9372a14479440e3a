"""Chats of text: observations and turns alternate, and the template renders them as one text.

Each message is rendered once, and only the text that it adds is encoded. The rules:

* In the rendering, each turn is enclosed in two private markers. If the new rendering begins with the old one followed
  by the unchanged turn, the template only appended, and only the text after the turn is encoded. That text begins with
  the template's closing of the turn. Its end-of-turn token is omitted if the policy sampled it, and added with mask 0
  if generation was cut.
* If the template changed earlier text (for example, it strips earlier reasoning), or the oldest turns were dropped, the
  context begins again. For each earlier turn it keeps the sampled ids of the part that the template kept, from the
  first boundary between two tokens; without control tokens of images, which would stand for one.
* An observation cannot inject a control token; see ``encoding``.

A template that is proven to only append (``template``) costs one short encoding per turn.
"""

import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ....records import Role
from ...errors import UnusableChat
from ...model_folder import base_model
from ..encoding import Encoder, load_tokenizer, read_json
from ..renderer import ChatMessage, Image, ImageSpan, Parsed, Rendered
from ..template import THOUGHT_END, Template, TurnAffixes

MODEL_TYPES = frozenset[str]()


@dataclass(frozen=True, slots=True)
class _Rendering:
    """A rendering up to the policy's next turn."""

    mark: str
    """Begin of all markers, which no text of the conversation contains."""
    texts: Sequence[str]
    """The text of each message, in which markers replace look-alikes of control tokens."""
    escaped: Mapping[str, str]
    """The original text of each of these markers."""
    whole: str
    """The rendered text; two markers enclose each turn."""

    def start(self, index: int) -> str:
        """Return the marker before the turn that is message ``index``."""
        return f"{self.mark}{index}s\ue001"

    def end(self, index: int) -> str:
        """Return the marker after that turn."""
        return f"{self.mark}{index}e\ue001"

    def marked(self, index: int) -> str:
        """Return the turn with its markers."""
        return self.start(index) + self.texts[index] + self.end(index)


class TextRenderer:
    """The tokenizer and chat template of a model folder."""

    reads_images = False

    def __init__(self, folder: Path) -> None:
        """Raises ``UnusableChat`` as ``load_renderer`` does."""
        try:
            tokenizer = load_tokenizer(folder)
            if not tokenizer.is_fast:
                raise UnusableChat("it has no fast tokenizer (`tokenizer.json`)")
            self.encoder = Encoder(tokenizer)
            self.template = Template(tokenizer)
            self.stop_tokens = _stop_tokens(folder, tokenizer, self.encoder, self.template)
        except UnusableChat as error:
            raise UnusableChat(f"`{folder}`: {error}") from error
        self._affixes: dict[bool, TurnAffixes | None] = {}

    def render(self, messages: Sequence[ChatMessage], previous: Rendered | None) -> Rendered:
        """Return the context of the policy's next turn, as ``renderer.Renderer`` defines it.

        Raises:
            ValueError: a message has an image that the model does not read, or calls a tool, or observations and turns
                do not alternate.
        """
        _refuse(messages)
        before: _Rendering | None = None if previous is None else previous.state
        affixes = self.turn_affixes(messages[0].role is Role.SYSTEM)
        if before is not None and affixes is not None:
            escaped: dict[str, str] = {}
            observation = self._text(messages[-1], f"{before.mark}m{len(messages)}_", escaped)
            added = affixes.before + observation + affixes.after
            return self._rendered([self._encode(added, escaped, messages[-2])], messages[-1:], state=before)
        if before is not None and len(messages) != len(before.texts) + 2:
            before = None
        rendering = self._render(messages, before)
        if before is None or (appended := _appended(before, rendering)) is None:
            return self._rendered(self._encode_whole(messages, rendering), messages, is_root=True, state=rendering)
        escaped = {marker: text for marker, text in rendering.escaped.items() if marker not in before.escaped}
        return self._rendered([self._encode(appended, escaped, messages[-2])], messages[-1:], state=rendering)

    def encode_completion(self, text: str, *, escapes: bool = False) -> list[int]:
        """Return the token ids of a turn that the policy did not sample, as ``renderer.Renderer`` defines it."""
        text, escaped = self.template.without_opening(text), dict[str, str]()
        if escapes:
            text = self.encoder.escape_special_tokens(text, _new_mark(), escaped)
        return [*self.encoder.encode(text, escaped, start=False), *self.stop_tokens[:1]]

    def image_spans(self, tokens: Sequence[int], images: Sequence[Image]) -> list[ImageSpan]:
        """Raise: the model reads text only."""
        raise ValueError("this policy reads text only, and the message contains images")

    def image_size(self, image: Image) -> tuple[int, ...]:
        """Raise: the model reads text only."""
        raise ValueError("this policy reads text only, and has no image processor")

    def parse(self, tokens: Sequence[int]) -> Parsed:
        """Return the text of a turn; a template of text has no calls.

        The text begins with the ``<think>`` that the template put before it if the turn has the end of that reasoning,
        or was cut before it.
        """
        text, template = self.turn_text(tokens), self.template
        reasons = THOUGHT_END in text or tokens[-1] not in self.stop_tokens
        return Parsed(template.opening + template.without_opening(text) if text and reasons else text)

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

    def _text(self, message: ChatMessage, marker: str, escaped: dict[str, str]) -> str:
        """Return the text of a message; that of an observation without look-alikes of control tokens."""
        if message.role is Role.ASSISTANT:
            return self.turn_text(message.tokens)
        if message.role is Role.SYSTEM:
            return "".join(str(part) for part in message.content)
        return "".join(
            self._image_text(part)
            if isinstance(part, Image)
            else self.encoder.escape_special_tokens(part, marker, escaped)
            for part in message.content
        )

    def _image_text(self, image: Image) -> str:
        """Return the control tokens that stand for an image.

        Raises:
            ValueError: the model reads text only.
        """
        raise ValueError("this policy reads text only, and the observation contains images")

    def _render(self, messages: Sequence[ChatMessage], before: _Rendering | None) -> _Rendering:
        """Render the whole conversation; ``before`` has the texts of all messages but the last two."""
        mark = _new_mark() if before is None else before.mark
        texts = [] if before is None else list(before.texts)
        escaped = {} if before is None else dict(before.escaped)
        for index in range(len(texts), len(messages)):
            texts.append(self._text(messages[index], f"{mark}m{index}_", escaped))
        rendering = _Rendering(mark, texts, escaped, "")
        whole = self.template.render(
            [
                (message.role, rendering.marked(i) if message.role is Role.ASSISTANT else texts[i])
                for i, message in enumerate(messages)
            ]
        )
        return _Rendering(mark, texts, escaped, whole)

    def _rendered(
        self, parts: Sequence[list[int]], shown: Sequence[ChatMessage], state: _Rendering, *, is_root: bool = False
    ) -> Rendered:
        """Return the rendering of the token ids ``parts``: the text around the turns, and between them the turns.

        Args:
            shown: the messages that the parts hold.
        """
        return Rendered([one for part in parts for one in part], is_root, self._image_spans(parts, shown), state)

    def _image_spans(self, parts: Sequence[list[int]], shown: Sequence[ChatMessage]) -> list[ImageSpan]:
        """Return the places of the images of ``shown`` in the token ids ``parts``."""
        return []

    def _encode_whole(self, messages: Sequence[ChatMessage], rendering: _Rendering) -> list[list[int]]:
        """Return the token ids of the whole context, as ``_rendered`` takes them; keep sampled ids wherever the
        template kept their text."""
        parts, last, rest = list[list[int]](), None, rendering.whole
        for i, turn in enumerate(messages):
            if turn.role is not Role.ASSISTANT:
                continue
            before, found, after = rest.partition(rendering.end(i))
            if not found:
                rest = rest.replace(rendering.start(i), "")
                continue
            gap, intact, kept = before.partition(rendering.start(i))
            tokens = self._kept(turn)
            if not intact or kept != rendering.texts[i]:
                gap, tokens = self._common_suffix(gap + kept, tokens)
            parts += [self._encode(gap, rendering.escaped, last, start=not any(parts)), tokens]
            last, rest = turn, after
        return [*parts, self._encode(rest, rendering.escaped, last, start=not any(parts))]

    def _kept(self, turn: ChatMessage) -> list[int]:
        """Return the ids of an earlier turn in a context that begins again."""
        return list(turn.tokens)

    def _encode(
        self, text: str, escaped: Mapping[str, str], turn: ChatMessage | None, *, start: bool = False
    ) -> list[int]:
        """Return the token ids of the text after a turn; of its closing, those that the turn does not end with."""
        text = text if turn is None else self.encoder.after_stop(text, turn.tokens[-1])
        return self.encoder.encode(text, escaped, start=start)

    def _common_suffix(self, text: str, tokens: list[int]) -> tuple[str, list[int]]:
        """Split ``text`` into the part before the longest suffix that ``tokens`` spell, and the token ids of that
        suffix."""
        low, high = 0, len(tokens)
        while low < high:
            middle = (low + high) // 2
            if text.endswith(self.turn_text(tokens[middle:])):
                high = middle
            else:
                low = middle + 1
        tail = self.turn_text(tokens[low:])
        return text[: len(text) - len(tail)], tokens[low:]


RENDERER = TextRenderer


def _new_mark() -> str:
    return f"\ue000{secrets.token_hex(4)}"


def _refuse(messages: Sequence[ChatMessage]) -> None:
    if any(message.calls or message.role is Role.TOOL for message in messages):
        raise ValueError("this policy reads text only, and a message is of a tool")
    turns = messages[messages[0].role is Role.SYSTEM :]
    if any(turn.role is not (Role.ASSISTANT if i % 2 else Role.USER) for i, turn in enumerate(turns)):
        raise ValueError("observations and turns must alternate, and there are two observations in a row")


def _appended(before: _Rendering, rendering: _Rendering) -> str | None:
    """Return the text that the template added after the last turn; None if it changed earlier text.

    White space that the template puts before a turn, but not after the generation prompt, is ignored: the policy
    samples its own.
    """
    gap, found, added = rendering.whole.removeprefix(before.whole).partition(rendering.marked(len(before.texts)))
    return added if rendering.whole.startswith(before.whole) and found and not gap.strip() else None


def _stop_tokens(folder: Path, tokenizer: Any, encoder: Encoder, template: Template) -> list[int]:
    """Return the token ids that end a turn: those with which the chat template closes the last turn and an earlier one,
    and those that the model's files name.

    Many published folders name another end of sequence than their template writes, or none. The policy was trained to
    write the template's, so the turn ends there.

    Raises:
        UnusableChat: the template closes a turn with no single token, or a file names an end that is no token id.
    """
    closing, *others = template.closings()
    first = encoder.control_token(closing)
    if first is None:
        raise UnusableChat(
            f"its chat template closes a turn with {closing!r}, which does not begin with a control token of the "
            "tokenizer, so the end of a turn could not be seen: let the template write the `eos_token` after a turn"
        )
    folder = base_model(folder)
    file = folder / "generation_config.json"
    listed = read_json(file).get("eos_token_id")
    if listed is None:
        file = folder / "config.json"
        listed = read_json(file).get("eos_token_id")
    ends = listed if isinstance(listed, list) else [] if listed is None else [listed]
    if wrong := [end for end in ends if type(end) is not int or end < 0]:
        raise UnusableChat(f"`eos_token_id` in its `{file.name}` is {wrong[0]!r}, no token id: correct it")
    named = [*map(encoder.control_token, others), tokenizer.eos_token_id]
    return list(dict.fromkeys([first, *(one for one in named if one is not None), *ends]))
