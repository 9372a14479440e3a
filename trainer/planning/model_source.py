"""Which model a run has: the configuration of a Hugging Face model, or a tiny model that the run creates."""

from dataclasses import replace
from typing import Any

from ...agents.model_folder import NOT_REACHED, is_hub_id, is_reachable
from ...agents.tiny_vision_model import vision_model_config
from ...base.process.start import absolute
from ...errors import TurnwiseError
from ..config.schema import RunConfig
from ..warmup.vocabulary import any_images, closed_vocabulary
from .known_models import KNOWN_MODELS
from .model_shape import ModelShape

SPECIAL_TOKENS = 3
"""Tokens of a tiny model that are not words of its environments."""


def model_shape(config: RunConfig) -> ModelShape:
    """Return the shape of the model to train. Of a given model only ``config.json`` is read.

    Raises:
        TurnwiseError: the model has no readable ``config.json``, or no vocabulary for a new model exists.
    """
    if config.model.path is not None:
        return shape_in(config.model.path)
    new, words = config.model.new, closed_vocabulary(config.environments)
    if any_images(config.environments):
        sizes: Any = {"hidden": new.hidden, "layers": new.layers, "heads": new.heads, "patch_size": new.patch_size}
        return ModelShape.of(vision_model_config(words, **sizes))
    return ModelShape(
        model_type=new.architecture,
        hidden=new.hidden,
        layers=new.layers,
        heads=new.heads,
        kv_heads=new.heads,
        head_dim=new.hidden // new.heads,
        intermediate=2 * new.hidden,
        vocabulary=len(words) + SPECIAL_TOKENS,
        is_tied=new.tie_embeddings,
    )


def shape_in(model: str) -> ModelShape:
    """Return the shape of a model: of its folder, or of a hub id, of which `config.json` alone is fetched.

    Raises:
        TurnwiseError: its configuration cannot be found, or transformers cannot read it.
    """
    config = config_of(model)
    return replace(ModelShape.of(config), is_published=not config.name_or_path)


def config_of(model: str) -> Any:
    """Return the configuration of a model: of its folder, or of a hub id, of which `config.json` alone is fetched.

    Where the hub cannot be reached, the models of the shipped examples have their published sizes, and no
    ``name_or_path``.

    Raises:
        TurnwiseError: it cannot be found, or transformers cannot read it.
    """
    from transformers import AutoConfig  # takes a second to import

    if not (absolute(model) / "config.json").exists() and not is_hub_id(model):
        raise TurnwiseError(
            f"`model.path`: `{model}` is neither a Hugging Face model folder (no config.json) nor a hub id, so its "
            "memory cannot be planned: `hf download NAME config.json --local-dir FOLDER` fetches the one file that is "
            "needed"
        )
    is_here = absolute(model).exists()
    reachable = is_here or is_reachable(model)
    try:
        return AutoConfig.from_pretrained(model, trust_remote_code=False, local_files_only=not reachable)
    except Exception as error:  # each class of transformers checks its values in its own way
        if not reachable and model in KNOWN_MODELS:
            return AutoConfig.for_model(**KNOWN_MODELS[model])
        reason = str(error).strip().partition("\n")[0].rstrip(".") if reachable else NOT_REACHED
        source = f"the configuration of `{model}` cannot be read"
        if not is_here:
            source = f"there is no folder `{model}`, and the hub's configuration of that name cannot be read"
        raise TurnwiseError(
            f"`model.path`: {source}, so its memory cannot be planned: {reason}. "
            "`hf download NAME config.json --local-dir FOLDER` fetches it where the hub can be reached; then set "
            "`model.path` to the folder"
        ) from error
