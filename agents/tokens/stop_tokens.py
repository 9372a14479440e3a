"""The tokens that end a turn: those with which the chat template closes the last turn and an earlier one, and those
that the model's files name.

Many published folders name another end of sequence than their template writes, or none. The policy was trained to write
the template's, so the turn ends there.
"""

from pathlib import Path
from typing import Any

from ..errors import UnusableChat
from ..weights.adapter_folder import base_model
from .encoding import Encoder, load_tokenizer, read_json
from .template import Template


def stop_tokens(folder: Path) -> list[int]:
    """Return the token ids that end a turn of the model in a folder; the first closes it in the template.

    Raises:
        UnusableChat: the template closes a turn with no single token, or a file names an end that is no token id.
    """
    tokenizer = load_tokenizer(folder)
    return stops_of(folder, tokenizer, Encoder(tokenizer), Template(tokenizer))


def stops_of(folder: Path, tokenizer: Any, encoder: Encoder, template: Template) -> list[int]:
    """Return the same for a tokenizer that is loaded. Raises as ``stop_tokens``."""
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
