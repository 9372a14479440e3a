"""A model's chat template: render it, and prove that it only appends.

The proof renders conversations of one to four turns with texts that record every inspection by the template. If the
template inspects no text, keeps every text unchanged, and extends each shorter conversation by the same affixes, its
output depends on the roles alone, and the affixes of a message are constant.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ...records import Role
from ..errors import UnusableChat

_PROBE_TURNS = 4
THOUGHT_END = "</think>"
_OPENING = re.compile(r"<think>\s*\Z")
_MARKUP = 'First Line\n\t<b>"of"</b> it\'s a & b: {{ c }} [d](e) http://f.g/h?i=j É\r\n\n  * '
_SYSTEM, _OBSERVATION, _ANSWER, _NEXT, _REPLY, _LAST = (
    f"\ue000turnwise{name} {_MARKUP}{'word ' * 20_000}{_MARKUP}{name}" for name in "soanrl"
)
"""Texts of which a template must keep every one whole; it may trim white space around them."""
_TEXTS = {
    _SYSTEM: "the instructions",
    _OBSERVATION: "an observation",
    _ANSWER: "the policy's turn",
    _NEXT: "an observation",
    _REPLY: "the policy's turn",
    _LAST: "an observation",
}
"""The texts of a conversation in their order, each with its name in errors."""
_OPAQUE = frozenset({"__class__", "__str__", "__format__", "__add__", "__radd__", "__html__"})


@dataclass(frozen=True, slots=True)
class TurnAffixes:
    """The text that an append-only template puts between a turn and the next observation, and after that
    observation."""

    before: str
    after: str


def alternating(system: str, observations: Sequence[str], answers: Sequence[str]) -> list[tuple[str, str]]:
    """Return the messages of a conversation up to the policy's next turn; there is one more observation than answers.
    An empty ``system`` adds no system message."""
    messages: list[tuple[str, str]] = [(Role.SYSTEM, system)] if system else []
    for i, observation in enumerate(observations):
        messages.append((Role.USER, observation))
        messages += [(Role.ASSISTANT, answer) for answer in answers[i : i + 1]]
    return messages


class Template:
    """The chat template of one tokenizer."""

    def __init__(self, tokenizer: Any) -> None:
        """Raises ``UnusableChat`` if there is no template, or none that renders a conversation with all its texts."""
        self._tokenizer = tokenizer
        self._folds_system: bool | None = None
        self._in_parts = False
        """Whether the template reads a text only as a part of a message, as those of some models that read images."""
        template = tokenizer.chat_template
        if not template:
            raise UnusableChat("it has no chat template: take an instruction-tuned model")
        if isinstance(template, dict) and "default" not in template:
            names = ", ".join(f"`{name}`" for name in template)
            raise UnusableChat(
                f"its chat templates are named {names}, and none is `default`: rename the one to use in "
                "`tokenizer_config.json`, or save it as `chat_template.jinja`"
            )
        try:
            rendered = self._conversation(in_parts=False)
        except UnusableChat as refused:
            try:
                rendered = self._conversation(in_parts=True)
            except UnusableChat:
                raise refused from refused.__cause__
        if repeated := dict.fromkeys(name for text, name in _TEXTS.items() if rendered.count(text) > 1):
            raise UnusableChat(f"its chat template writes {' and '.join(repeated)} more than once")
        turns = [text for text in _TEXTS if text != _SYSTEM]  # some templates put it before the last observation
        if sorted(turns, key=rendered.index) != turns:
            raise UnusableChat("its chat template writes the messages in another order than that of the conversation")
        found = _OPENING.search(rendered)
        self.opening = found[0] if found else ""
        """The ``<think>`` with which the template begins the policy's next turn, in place of the policy; or empty."""

    def _conversation(self, *, in_parts: bool) -> str:
        """Return a conversation with every text. Raises ``UnusableChat`` if the template leaves out one."""
        self._in_parts, self._folds_system = in_parts, None
        try:
            rendered = self.render(alternating(_SYSTEM, [_OBSERVATION, _NEXT, _LAST], [_ANSWER, _REPLY]))
        except Exception as error:
            raise UnusableChat(
                f"its chat template cannot be rendered: {type(error).__name__}: {str(error).partition(chr(10))[0]}"
            ) from error
        if lost := dict.fromkeys(name for text, name in _TEXTS.items() if text not in rendered):
            raise UnusableChat(f"its chat template leaves out {' and '.join(lost)}")
        return rendered

    def without_opening(self, text: str) -> str:
        """Return a text without the ``<think>`` at its begin that the template writes itself."""
        tag = self.opening.strip()
        return text.lstrip().removeprefix(tag).lstrip() if tag and text.lstrip().startswith(tag) else text

    def closings(self) -> list[str]:
        """Return the texts that the template puts after the policy's last turn, unless it puts none there, and after an
        earlier one.

        A template that begins the text of a turn itself, with a channel, lets a turn have several messages. The text
        after an earlier turn then closes a message, so it is left out.
        """
        last = [{"role": "user", "content": _OBSERVATION}, {"role": "assistant", "content": _ANSWER}]
        whole = self._render(last, asks=False)
        closed = whole.rpartition(_ANSWER)[2]
        further = self._render([*last, {"role": "user", "content": _NEXT}], asks=False)
        earlier = further.rpartition(_ANSWER)[2].partition(_NEXT)[0]
        if not closed.strip():
            return [earlier]
        request = self._render(last[:1]).removeprefix(self._render(last[:1], asks=False)).removesuffix(self.opening)
        is_one_message = whole.partition(_ANSWER)[0].rstrip().endswith(request.rstrip())
        return [closed, earlier] if is_one_message else [closed]

    def render(self, messages: Sequence[tuple[str, str]]) -> str:
        """Return the conversation up to the policy's next turn, of which each message is a role and a text.

        If the template rejects system messages, or leaves them out, the system text is put before the first
        observation.
        """
        if messages[0][0] == Role.SYSTEM and self._needs_fold():
            (_, system), (role, first), *others = messages
            messages = [(role, f"{system}\n\n{first}"), *others]
        return self._render([{"role": str(role), "content": text} for role, text in messages])

    def probe(self, system: bool) -> TurnAffixes | None:
        """Return the template's ``TurnAffixes`` if it is proven to only append, else None."""
        inspections: list[str] = []
        texts = [_Text(f" \n o{i} \"'<&> é\n ", inspections) for i in range(_PROBE_TURNS)]
        answers = [_Text(f" \n a{i} \"'<&> é\n ", inspections) for i in range(_PROBE_TURNS)]
        affixes: set[TurnAffixes] = set()
        previous = ""
        for i in range(_PROBE_TURNS):
            rendered = self.render(alternating("s" if system else "", texts[: i + 1], answers[:i]))
            if i:
                prefix = previous + str(answers[i - 1])
                added = rendered.removeprefix(prefix)
                if added == rendered or added.count(str(texts[i])) != 1:
                    return None
                affixes.add(TurnAffixes(*added.split(str(texts[i]))))
            previous = rendered
        return affixes.pop() if len(affixes) == 1 and not inspections else None

    def _needs_fold(self) -> bool:
        if self._folds_system is None:
            from jinja2 import TemplateError

            try:
                messages = [{"role": "system", "content": _SYSTEM}, {"role": "user", "content": _OBSERVATION}]
                self._folds_system = _SYSTEM not in self._render(messages)
            except TemplateError:
                self._folds_system = True
        return self._folds_system

    def _render(self, messages: list[dict[str, str]], *, asks: bool = True) -> str:
        """Return the conversation as text; if it ``asks``, up to the policy's next turn."""
        given: list[dict[str, Any]] = [
            {**one, "content": [{"type": "text", "text": one["content"]}] if self._in_parts else one["content"]}
            for one in messages
        ]
        return str(self._tokenizer.apply_chat_template(given, tokenize=False, add_generation_prompt=asks))


class _Text(str):
    """A string that records every inspection other than printing or joining it."""

    __slots__ = ("_inspections",)
    _inspections: list[str]

    def __new__(cls, value: str, inspections: list[str]) -> "_Text":
        text = super().__new__(cls, value)
        text._inspections = inspections
        return text

    def __getattribute__(self, name: str) -> Any:
        if name != "_inspections" and name not in _OPAQUE:
            self._inspections.append(name)
        return super().__getattribute__(name)


def _recording(name: str) -> Any:
    def method(self: _Text, *args: Any) -> Any:
        self._inspections.append(name)
        return getattr(str, name)(self, *args)

    return method


for _name in ("__contains__", "__eq__", "__ne__", "__lt__", "__gt__", "__len__", "__iter__", "__getitem__", "__mod__"):
    setattr(_Text, _name, _recording(_name))
