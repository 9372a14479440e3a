"""Text to token ids and back, such that external text cannot become a control token.

``encode`` reads the template's control tokens as such. Any text in an observation that equals an added token of the
tokenizer (``<|im_end|>``, ``<think>``) is first replaced by a private marker
(``escape_special_tokens``), which ``encode`` then encodes with a tokenizer without added tokens. Text without
added tokens, which is nearly all text, is encoded in one piece with the template around it, as in training.
"""

import json
import re
from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

from ...base.user_files import read_json_object
from ..errors import UnusableChat
from ..model_folder import base_model

GENERIC_CLASSES = frozenset({"PreTrainedTokenizerFast", "TokenizersBackend"})
"""Tokenizer classes of Hugging Face whose behavior ``tokenizer.json`` defines completely."""
ARCHITECTURES = frozenset({"llama", "qwen3", "qwen3_vl"})
"""Values of ``model_type`` for which ``AutoTokenizer`` takes the class that the folder names, instead of its own."""


def load_tokenizer(folder: Path) -> Any:
    """Load the Hugging Face tokenizer of a model folder, or of the model that an adapter's folder names.

    ``AutoTokenizer`` imports torch to find the class of a model: seconds and 200 MB in every worker. A folder that
    names a generic class, such as that of a tiny model, needs no search.

    Raises:
        UnusableChat: its files cannot be read.
    """
    folder = base_model(folder)
    try:
        return _load(folder)
    except Exception as error:  # the library raises bare exceptions for a broken file
        reason = str(error).strip().partition("\n")[0]
        raise UnusableChat(f"its tokenizer cannot be read: {type(error).__name__}: {reason}") from error


def _load(folder: Path) -> Any:
    named = read_json(folder / "tokenizer_config.json").get("tokenizer_class")
    if named in GENERIC_CLASSES and read_json(folder / "config.json").get("model_type") in ARCHITECTURES:
        from transformers import PreTrainedTokenizerFast

        return PreTrainedTokenizerFast.from_pretrained(folder)
    from transformers import AutoTokenizer

    return AutoTokenizer.from_pretrained(folder, trust_remote_code=False)


def read_json(file: Path) -> dict[str, Any]:
    """Return the settings in a file of a model folder; none if there is no such file."""
    return read_json_object(file) if file.exists() else {}


class Encoder:
    """Encodes and decodes with one Hugging Face fast tokenizer."""

    def __init__(self, tokenizer: Any) -> None:
        self._backend: Any = tokenizer.backend_tokenizer
        added = self._backend.get_added_tokens_decoder()
        self._texts: dict[int, str] = {i: token.content for i, token in added.items() if token.content.strip()}
        self._eos: int | None = tokenizer.eos_token_id
        self._unknown: int | None = tokenizer.unk_token_id
        longest_first = sorted(self._texts.values(), key=len, reverse=True)
        self._lookalike = re.compile("|".join(map(re.escape, longest_first)) or r"(?!)")
        self._anchor = self._find_anchor()

    def encode(self, text: str, escaped: Mapping[str, str], *, start: bool) -> list[int]:
        """Return the token ids of ``text``, which is at the ``start`` of the context or continues it.

        ``escaped`` maps each marker that ``escape_special_tokens`` put into the text to the original text.
        """
        if not escaped:
            return self._encode(text, start)
        ids: list[int] = []
        for piece in re.split("(" + "|".join(map(re.escape, escaped)) + ")", text):
            if piece in escaped:
                ids += self._plain.encode(escaped[piece], add_special_tokens=False).ids
            elif piece:
                ids += self._encode(piece, start and not ids)
        return ids

    def is_complete(self, text: str) -> bool:
        """Return whether the tokenizer has tokens for all of ``text``."""
        return self._unknown not in self._encode(text, False)

    def escape_special_tokens(self, text: str, marker: str, escaped: dict[str, str]) -> str:
        """Return ``text`` with each look-alike of a special token replaced by a marker; add the markers to
        ``escaped``."""
        if self._lookalike.search(text) is None:
            return text

        def replace(match: re.Match[str]) -> str:
            key = f"{marker}{len(escaped)}\ue001"
            escaped[key] = match.group()
            return key

        return self._lookalike.sub(replace, text)

    def decode(self, ids: Sequence[int]) -> str:
        """Return the text of sampled ids, without control tokens."""
        return str(self._backend.decode(ids, skip_special_tokens=True))

    @property
    def vocabulary(self) -> dict[str, int]:
        """The id of every token, control tokens included."""
        found: dict[str, int] = self._backend.get_vocab(with_added_tokens=True)
        return found

    def word_ids(self) -> list[int]:
        """Return the ids of all tokens except control tokens."""
        return list(self._backend.get_vocab(with_added_tokens=False).values())

    def token(self, number: int) -> str:
        """Return the token of an id, as the vocabulary spells it."""
        return str(self._backend.id_to_token(number))

    def control_token(self, text: str) -> int | None:
        """Return the id of the control token that ``text`` begins with, after white space; None if there is none."""
        text = text.lstrip()
        found = [(len(token), i) for i, token in self._texts.items() if text.startswith(token.strip())]
        return max(found)[1] if found else None

    def after_stop(self, closing: str, last: int) -> str:
        """Return the template's ``closing`` of a turn without the end-of-turn token, if ``last`` is that token."""
        stop = self._texts.get(last)
        stripped = closing.lstrip()
        return stripped[len(stop) :] if stop is not None and stripped.startswith(stop) else closing

    def _encode(self, text: str, start: bool) -> list[int]:
        if start or not self._anchor:
            ids: list[int] = self._backend.encode(text, add_special_tokens=False).ids
            return ids
        anchored: list[int] = self._backend.encode(self._anchor + text, add_special_tokens=False).ids
        return anchored[1:]

    def _find_anchor(self) -> str:
        """Return a token to put before a continuation, if the tokenizer treats the start of a text specially."""
        text = self._texts.get(self._eos) if self._eos is not None else None
        if text is None:
            return ""
        alone = self._backend.encode("a b", add_special_tokens=False).ids
        anchored = self._backend.encode(text + "a b", add_special_tokens=False).ids
        return text if anchored[0] == self._eos and anchored[1:] != alone else ""

    @cached_property
    def _plain(self) -> Any:
        from tokenizers import Tokenizer

        state = json.loads(self._backend.to_str())
        return Tokenizer.from_str(json.dumps({**state, "added_tokens": [], "post_processor": None}))
