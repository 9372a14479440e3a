"""The text of each token, for a reader of stored tokens: it loads ``tokenizer.json`` alone, without transformers."""

from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from contextlib import suppress
from functools import cache, cached_property, lru_cache
from pathlib import Path
from typing import Any

from ...base.process.start import absolute
from ...records import Trajectory
from ...store import queries
from ...store.database import Database
from ...store.project import run_folder
from ..model_folder import base_model

PARTIAL = "\N{REPLACEMENT CHARACTER}"
"""Decoded from a token with a part of a character only."""
SPACE = "▁"
"""The sign of SentencePiece for a space before a word, which decoding one token alone drops."""


class TokenTexts:
    """Texts by token id of one tokenizer."""

    def __init__(self, tokenizer: Any) -> None:
        self._tokenizer = tokenizer
        self._text = cache(self._decode)

    @staticmethod
    def load(folders: Iterable[Path]) -> "TokenTexts | None":
        """Return the texts of the tokenizer in the first of ``folders`` that has one; None if none has.

        Raises:
            ModuleNotFoundError: there is one, and the package ``tokenizers`` is not installed.
        """
        for folder in folders:
            with suppress(OSError):  # no file has the name of a run that is too long
                file = base_model(folder) / "tokenizer.json"
                if file.is_file():
                    return _loaded(file, file.stat().st_mtime_ns)
        return None

    def text(self, token: int) -> str:
        """Return the text of one token, or its name in the vocabulary if its text is a part of a character."""
        return self._text(int(token))

    def decode(self, tokens: Iterable[int]) -> str:
        """Return the text of consecutive tokens, control tokens included."""
        return str(self._tokenizer.decode([int(token) for token in tokens], skip_special_tokens=False))

    @cached_property
    def control_tokens(self) -> frozenset[int]:
        """The ids of the control tokens."""
        added = self._tokenizer.get_added_tokens_decoder()
        return frozenset(token for token, one in added.items() if one.special)

    def _decode(self, token: int) -> str:
        name = self._tokenizer.id_to_token(token)
        if name is None:
            return ""
        text = self.decode([token])
        if PARTIAL in text:
            return str(name)
        return f" {text}" if name.startswith(SPACE) and not text.startswith(" ") else text


@lru_cache(maxsize=2)
def _loaded(file: Path, changed_ns: int) -> TokenTexts:
    """Return the texts of the tokenizer in a file, which was last changed at ``changed_ns``."""
    from tokenizers import Tokenizer

    return TokenTexts(Tokenizer.from_file(str(file)))


def tokenizer_of_run(database: Database, run: str) -> TokenTexts | None:
    """Return the texts of the tokens of a run: of the tokenizer in its folder, or of the model that it evaluates."""
    with database.read() as conn:
        policy = queries.find_run(conn, run).config.get("policy")
    folders = [run_folder(database, run) / "tokenizer"]
    return TokenTexts.load([*folders, absolute(policy)] if isinstance(policy, str) else folders)


def system_text(texts: TokenTexts | None, trajectory: Trajectory) -> str:
    """Return the text before the first observation, with its images, in the first context of the policy; empty without
    ``texts``."""
    if texts is None or not trajectory.messages or not trajectory.steps:
        return ""
    first, observation = trajectory.messages[0], trajectory.steps[0].observation
    tokens = list(map(int, first.tokens))
    text = texts.decode(tokens[: _image_start(tokens, texts.control_tokens)] if first.images else tokens)
    return text.partition(observation)[0] if observation else text


def _image_start(tokens: Sequence[int], control: Collection[int]) -> int:
    """Return where the first image begins: at the control token that is there most often, or one that precedes it."""
    counts = Counter(token for token in tokens if token in control)
    start = tokens.index(counts.most_common(1)[0][0]) if counts else len(tokens)
    return start - (0 < start < len(tokens) and tokens[start - 1] in control)
