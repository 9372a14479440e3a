"""The refusal of token ids without a row in the embeddings: vLLM would look one up beyond the matrix."""

from pathlib import Path
from typing import Any

from ...agents.tokens.conversation import Conversation
from ...agents.tokens.encoding import read_json
from ...agents.tokens.renderer import Renderer
from ...errors import TurnwiseError
from ...records import Source

SPECIAL = ("bos_token_id", "eos_token_id", "pad_token_id")
FROM_THE_END = -1
"""The padding row that the first Llama folders name: the last one."""


def refuse_foreign_ids(folder: Path, config: Any, renderer: Renderer) -> None:
    """Refuse a model whose words, template and stop tokens are not all rows of its embeddings.

    A token that no text reaches is harmless: that of padding, for example, in a folder that was not resized.

    Raises:
        TurnwiseError: the message names the tokens.
    """
    rows = config.vocab_size
    conversation = Conversation(renderer, "s")
    conversation.observe("o")
    conversation.append_external("a", Source.EXPERT)
    conversation.observe("p")
    used = {
        "its vocabulary": renderer.encoder.word_ids(),
        "its chat template": conversation.prompt(),
        "its list of stop tokens": renderer.stop_tokens,
    }
    for source, ids in used.items():
        if beyond := sorted({one for one in ids if one >= rows}):
            names = ", ".join(f"{renderer.encoder.token(one)!r} ({one})" for one in beyond[:3])
            raise TurnwiseError(
                f"`{folder}`: {source} holds {names}, and the model has embeddings for {rows} tokens: resize them "
                "(`resize_token_embeddings`), or use the tokenizer that belongs to the model"
            )


def refuse_foreign_special_ids(folder: Path, config: Any) -> None:
    """Refuse a special token id in the files of a model that is no row of its embeddings.

    Raises:
        TurnwiseError: the message names the file and the key.
    """
    rows = config.vocab_size
    for name in ("config.json", "generation_config.json"):
        settings = read_json(folder / name)
        for key in SPECIAL:
            listed = settings.get(key)
            for one in listed if isinstance(listed, list) else [] if listed is None else [listed]:
                is_row = type(one) is int and 0 <= one < rows
                if not is_row and not (key == "pad_token_id" and one == FROM_THE_END):
                    raise TurnwiseError(
                        f"`{folder / name}`: `{key}` is {one!r}, and the model has the token ids 0 to {rows - 1}: "
                        "correct it"
                    )
