"""The refusals of a model: one that cannot be read, trained, served or planned, or an adapter on other weights.

A folder that the libraries cannot load is refused in the words of its loader. The other checks are of what would fail
silently, or once an engine starts. What they need of the learner imports torch, so it is imported when a model is
checked.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from ...agents.engine.config import IMAGE_TYPES, refuse_other_images, refuse_unservable
from ...agents.model_folder import ADAPTER_WEIGHTS, base_model, is_adapter, reads_images
from ...agents.tokens.conversation import Conversation
from ...agents.tokens.encoding import Encoder, load_tokenizer
from ...agents.tokens.renderer import Renderer
from ...agents.tokens.renderers import load_renderer
from ...base.process.start import absolute
from ...errors import TurnwiseError
from ...records import Source
from ..config.schema import RunConfig
from ..planning.model_source import config_of
from .refusal import RUNS, Command, Cost, Stage, Subject, refuses


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
    found = config_of(model)
    refuse_unsupported_config(found, model, "model.path")
    refuse_frozen_vision(config, found)
    refuse_short_positions(found, model, "model.path", config.max_context)
    if config.num_engines:
        refuse_unservable(found, config.engine, config.max_context)
    if any(folder.glob("*.safetensors*")):
        with _named("model.path"):
            refuse_incomplete(folder)
    if (folder / "tokenizer.json").is_file():
        usable_renderer(folder, found, "model.path")


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
    with _named("model.reference"):
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

    with _named(key):
        folder = base_model(model)
    config = refuse_unsupported(folder, key) if trains else read_config(folder, key)
    refuse_other_images(config, str(folder), key)
    refuse_quantized(config, str(folder), key)
    refuse_short_positions(config, str(folder), key, max_context)
    with _named(key):
        refuse_incomplete(folder)
        if is_adapter(model):
            refuse_damaged([model / ADAPTER_WEIGHTS])
    return usable_renderer(folder, config, key), config


def usable_renderer(folder: Path, config: Any, key: str) -> Renderer:
    """Return the renderer of a model whose token ids all have a row in the embeddings.

    Raises:
        TurnwiseError: they do not, or the tokenizer or the chat template cannot be used.
    """
    with _named(key):
        renderer = load_renderer(folder)
        refuse_foreign_ids(folder, config, renderer)
    return renderer


def refuse_short_positions(config: Any, model: str, key: str, max_context: int) -> None:
    """Refuse a model with fewer positions than the longest context of the run.

    Args:
        config: of the model, as `transformers` reads it.

    Raises:
        TurnwiseError: as above.
    """
    positions = getattr(config.get_text_config(), "max_position_embeddings", None)
    if positions is not None and max_context > positions:
        raise TurnwiseError(
            f"`horizon.max_context` is {max_context}, and {model} has {positions} positions "
            f"(`max_position_embeddings` in its config.json): set `horizon.max_context` to at most {positions}, or "
            f"`{key}` to a model with a longer context"
        )


@contextmanager
def _named(key: str) -> Iterator[None]:
    """Name the key of a model in the error of its loader, in one line."""
    try:
        yield
    except TurnwiseError as error:
        raise TurnwiseError(f"`{key}`: {' '.join(str(error).split())}") from error
