"""The refusals of a model: one that cannot be read, trained, served or planned, or an adapter on other weights.

The checks of a folder are in the order in which a person corrects it: files, family, sizes, weights, chat. What they
need of the learner imports torch, so it is imported when a model is checked.
"""

import json
from pathlib import Path
from typing import Any

from ...agents.engine.config import IMAGE_TYPES, refuse_other_images, refuse_unservable
from ...agents.errors import UnusableChat
from ...agents.model_folder import ADAPTER_CONFIG, ADAPTER_WEIGHTS, base_model, is_adapter, reads_images
from ...agents.tokens.conversation import Conversation
from ...agents.tokens.encoding import Encoder, load_tokenizer, read_json
from ...agents.tokens.renderer import Renderer
from ...agents.tokens.renderers import load_renderer
from ...errors import TurnwiseError
from ...process.start import absolute
from ...records import Source
from ...user_files import MAX_JSON_BYTES, open_regular_file, read_regular_file
from ..config.schema import RunConfig
from ..planning.model_source import config_of
from .refusal import RUNS, Command, Cost, Stage, Subject, refuses

SPECIAL = ("bos_token_id", "eos_token_id", "pad_token_id")
FROM_THE_END = -1
"""The padding row that the first Llama folders name: the last one."""


def refuse_foreign_ids(folder: Path, config: Any, renderer: Renderer) -> None:
    """Refuse a model whose words, template and stop tokens are not all rows of its embeddings.

    A token that no text reaches is harmless: that of padding, for example, in a folder that was not resized.

    Raises:
        TurnwiseError: the message names the tokens.
    """
    rows = config.get_text_config().vocab_size
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
        if beyond := sorted({id_ for id_ in ids if id_ >= rows}):
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
    rows = config.get_text_config().vocab_size
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


SETTINGS = (
    "config.json",
    "generation_config.json",
    "tokenizer_config.json",
    "tokenizer.json",
    "special_tokens_map.json",
    "added_tokens.json",
    ADAPTER_CONFIG,
)
"""Files of a model folder that hold one JSON object each, if they are there."""
LENGTHS = (
    "max_position_embeddings",
    "n_positions",
    "max_seq_len",
    "seq_length",
    "model_max_length",
    "max_target_positions",
    "max_sequence_length",
    "max_seq_length",
    "seq_len",
)
"""Keys of ``config.json`` by which vLLM limits a sequence: to the smallest, or to ``model_max_length``."""
READ = ("*.json", "*.jinja", "*.txt", "*.model", "*.safetensors", "additional_chat_templates/*.jinja")
"""Patterns of the files of a model folder that the libraries open."""


@refuses("model.path", Cost.MODEL, Command.TRAIN)
def untrainable_model(subject: Subject) -> None:
    """Refuse a configured model that the run cannot train or serve, and a reference policy with another tokenizer."""
    if (model := subject.config.model.folder()) is not None:
        refuse_untrainable_model(subject.config, model)


@refuses("model.path", Cost.MODEL, *RUNS, stage=Stage.WEIGHTS)
def untrainable_weights(subject: Subject) -> None:
    """Refuse a checkpoint, or a new model, as a configured model is refused before the start."""
    is_checked = subject.command is Command.TRAIN and subject.config.model.path is not None
    if subject.model is not None and not is_checked:
        refuse_untrainable_model(subject.config, subject.model)


@refuses("model.path", Cost.MODEL, Command.PLAN)
def unplannable_model(subject: Subject) -> None:
    """Refuse a model that a run would refuse, by the files that are here: ``config.json`` alone of a hub id."""
    from ..learner.model.loading import refuse_incomplete
    from ..learner.model.supported import refuse_unsupported_config

    config, model = subject.config, subject.config.model.path
    if model is None:
        return
    folder = absolute(model)
    if folder.is_dir():
        refuse_broken_settings(folder)
    found = config_of(model)
    refuse_unsupported_config(found, model, "model.path")
    refuse_frozen_vision(config, found)
    refuse_short_positions(found, model, "model.path", config.max_context)
    if config.num_engines:
        refuse_unservable(found, config.engine, config.max_context)
    if folder.is_dir():
        refuse_foreign_special_ids(folder, found)
    if any(folder.glob("*.safetensors*")):
        refuse_incomplete(folder)
    if (folder / "tokenizer.json").is_file():
        refuse_unusable_chat(folder, found)


@refuses("--policy", Cost.MODEL, Command.EVAL, Command.BRANCH)
def unplayable_model(subject: Subject) -> None:
    """Refuse a model that cannot play."""
    if subject.model is not None:
        config = subject.config
        _, own = refuse_unusable(subject.model, "--policy", config.max_context)
        refuse_unservable(own, config.engine, config.max_context, "--policy")


@refuses("--model", Cost.MODEL, Command.DOCTOR)
def unusable_model(subject: Subject) -> None:
    """Refuse a model that cannot be trained, with whatever context."""
    if subject.model is not None:
        refuse_unusable(subject.model, "--model", 0, trains=True)


@refuses("--policy", Cost.WEIGHTS, Command.EVAL, Command.BRANCH)
@refuses("model.path", Cost.WEIGHTS, Command.RESUME, Command.FORK, stage=Stage.WEIGHTS)
def adapter_on_other_weights(subject: Subject) -> None:
    """Refuse an adapter whose model changed since the adapter was written."""
    if subject.model is not None and is_adapter(subject.model):
        from ..learner.model.adapter import verify_base

        verify_base(subject.model)


def refuse_untrainable_model(config: RunConfig, model: Path) -> None:
    """Refuse a model that the run cannot train, and a reference policy that cannot score its tokens.

    Args:
        model: the folder of a model or of an adapter.

    Raises:
        TurnwiseError: the message names the file or key to change.
    """
    from ..learner.model.loading import refuse_incomplete
    from ..learner.model.supported import refuse_unsupported

    renderer, own = refuse_unusable(model, "model.path", config.max_context, trains=True)
    refuse_frozen_vision(config, own)
    if config.num_engines:
        refuse_unservable(own, config.engine, config.max_context)
    if renderer.reads_images and config.advantage.needs_token_model:
        raise TurnwiseError(
            "`advantage`: its token model reads text alone, and the policy reads images: choose another advantage"
        )
    if (reference := config.model.reference_folder()) is None:
        return
    refuse_broken_settings(reference)
    other = refuse_unsupported(reference, "model.reference")
    if renderer.reads_images and not reads_images(reference):
        raise TurnwiseError(
            f"`model.reference`: {reference} reads text alone, and the policy reads images: set it to a model that "
            "reads images"
        )
    rows, needed = other.get_text_config().vocab_size, own.get_text_config().vocab_size
    if rows < needed:
        raise TurnwiseError(
            f"`model.reference`: {reference} has {rows} token ids, and the policy has {needed}: it must be a model "
            "with the same tokenizer"
        )
    refuse_incomplete(reference)
    words = Encoder(load_tokenizer(reference)).vocabulary if (reference / "tokenizer.json").is_file() else None
    if words is not None and words != renderer.encoder.vocabulary:
        raise TurnwiseError(
            f"`model.reference`: {reference} has another vocabulary than the policy: it must have the same tokenizer"
        )


def refuse_frozen_vision(config: RunConfig, model: Any) -> None:
    """Refuse to freeze the vision tower of a model that has none.

    Args:
        model: its configuration, as `transformers` reads it.

    Raises:
        TurnwiseError: as above.
    """
    if config.learner.vision == "frozen" and model.model_type not in IMAGE_TYPES:
        raise TurnwiseError(
            f'`learner.vision` is "frozen", and the model (`{model.model_type}`) reads text alone: remove the key, or '
            "set `model.path` to a model that reads images"
        )


def refuse_unusable(model: Path, key: str, max_context: int, *, trains: bool = False) -> tuple[Renderer, Any]:
    """Return the renderer and the configuration of a model that turnwise can play with, and train if it ``trains``.

    Args:
        model: the folder of a model or of an adapter.
        key: the configuration key or option that names it, for the errors.
        max_context: prompt and completion together, in tokens.

    Raises:
        TurnwiseError: the message names the file or key to change.
    """
    from ..learner.model.loading import refuse_damaged, refuse_incomplete
    from ..learner.model.supported import read_config, refuse_quantized, refuse_unsupported

    refuse_broken_settings(model)
    folder = base_model(model)
    refuse_broken_settings(folder)
    config = refuse_unsupported(folder, key) if trains else read_config(folder, key)
    refuse_other_images(config, str(folder), key)
    refuse_quantized(config, str(folder), key)
    refuse_short_positions(config, str(folder), key, max_context)
    refuse_foreign_special_ids(folder, config)
    refuse_incomplete(folder)
    if is_adapter(model):
        refuse_damaged([model / ADAPTER_WEIGHTS])
    return refuse_unusable_chat(folder, config), config


def refuse_unusable_chat(folder: Path, config: Any) -> Renderer:
    """Return the renderer of a model whose token ids all have a row in the embeddings.

    Raises:
        TurnwiseError: they do not, or the tokenizer or the chat template cannot be used.
    """
    try:
        renderer = load_renderer(folder)
    except UnusableChat as error:
        raise UnusableChat(f"{error} (`docs/models.md` lists what a model needs)") from error
    refuse_foreign_ids(folder, config, renderer)
    return renderer


def refuse_short_positions(config: Any, model: str, key: str, max_context: int) -> None:
    """Refuse a model with fewer positions than the longest context of the run.

    Args:
        config: of the model, as `transformers` reads it.

    Raises:
        TurnwiseError: as above, or a limit is not a number above 0.
    """
    limits = _limits(config)
    for name, value in limits.items():
        if isinstance(value, bool) or not isinstance(value, int | float) or not value > 0:
            raise TurnwiseError(
                f"`{key}`: `{name}` in the config.json of {model} is {value!r}, not a number above 0: correct it"
            )
    positions = positions_of(config)
    if positions is not None and max_context > positions:
        name = "model_max_length" if limits.get("model_max_length") else min(limits, key=lambda limit: limits[limit])
        raise TurnwiseError(
            f"`horizon.max_context` is {max_context}, and {model} has {positions:.0f} positions "
            f"(`{name}` in its config.json): set `horizon.max_context` to at most {positions:.0f}, or "
            f"`{key}` to a model with a longer context"
        )


def positions_of(config: Any) -> float | None:
    """Return the longest sequence that vLLM serves of a model, in tokens; None if its configuration has no limit.

    Raises:
        TurnwiseError: a factor by which positions are stretched is no number.
    """
    limits = _limits(config)
    if not limits:
        return None
    text = config.get_text_config()
    positions: float = limits.get("model_max_length") or min(limits.values())
    rope = getattr(text, "rope_parameters", None) or {}
    kinds = [rope] if "rope_type" in rope else [one for one in rope.values() if isinstance(one, dict)]
    # The other stretched kinds state their positions after stretching.
    factors = [kind.get("factor") or 1.0 for kind in kinds if kind.get("rope_type") in ("linear", "dynamic")]
    if odd := [factor for factor in factors if not isinstance(factor, int | float)]:
        raise TurnwiseError(f"the rope `factor` in the model's config.json is {odd[0]!r}, not a number: correct it")
    scaled = positions * max(factors, default=1.0)
    return positions if "gemma3" in text.model_type else scaled


def _limits(config: Any) -> dict[str, Any]:
    """Return the limits on the length of a sequence in a configuration, by key."""
    found = {name: getattr(config.get_text_config(), name, None) for name in LENGTHS}
    return {name: value for name, value in found.items() if value is not None}


def refuse_broken_settings(folder: Path) -> None:
    """Refuse a folder with a file of settings that is no JSON object, or with a pipe or a device as one of its files.

    Raises:
        TurnwiseError: the message names the file.
    """
    for file in sorted(one for pattern in READ for one in folder.glob(pattern)):
        if file.exists() and not file.is_dir():
            open_regular_file(file).close()
    for name in SETTINGS:
        file = folder / name
        if not file.exists():
            continue
        try:
            content = json.loads(read_regular_file(file, MAX_JSON_BYTES).decode("utf-8"))
        except (ValueError, RecursionError) as error:
            raise TurnwiseError(f"`{file}` is not JSON ({error}): get it again") from error
        if not isinstance(content, dict):
            raise TurnwiseError(f"`{file}` holds no JSON object, but a {type(content).__name__}: get it again")
