"""``turnwise model``: create initial policies, convert GGUF files, and merge trained adapters."""

from pathlib import Path
from typing import Annotated, Any

import typer

from ...base.process.start import absolute
from ...errors import TurnwiseError
from ...store.project import DEFAULT_STORE
from ..options import MAX_COUNT, Json, Store, open_store
from ..terminal.output import echo, print_json

app = typer.Typer(help="Create a tiny model, convert a GGUF file, merge an adapter.", no_args_is_help=True)


class InvalidModelOptions(TurnwiseError):
    """A model cannot be created with the given options."""


@app.callback()
def root() -> None:
    """Create a tiny model, convert a GGUF file, merge an adapter."""


@app.command()
def new(
    path: Annotated[Path, typer.Argument(metavar="PATH", help="Folder to write; it must not contain a model.")],
    env: Annotated[
        list[str], typer.Option("--env", help="An environment whose words the tokenizer contains; repeatable.")
    ],
    hidden: Annotated[int, typer.Option(min=8, max=65_536, help="Hidden size.")] = 128,
    layers: Annotated[int, typer.Option(min=1, max=1_000, help="Number of layers.")] = 2,
    heads: Annotated[int, typer.Option(min=1, max=1_024, help="Number of attention heads.")] = 4,
    arch: Annotated[str, typer.Option(help="qwen3 or llama.")] = "qwen3",
    tie: Annotated[bool, typer.Option(help="Share one matrix between input and output embeddings.")] = True,
    vision: Annotated[
        bool, typer.Option("--vision", help="A model that reads images: a tiny Qwen3-VL; --arch and --tie are its own.")
    ] = False,
    patch: Annotated[
        int | None,
        typer.Option(
            min=4,
            max=112,
            help="With --vision: pixels of an image's patch along each side; a token has 2 x 2. Default: 14.",
        ),
    ] = None,
    context: Annotated[int, typer.Option(min=16, max=2**24, help="Maximum context, in tokens.")] = 4096,
    seed: Annotated[int, typer.Option(min=0, max=MAX_COUNT, help="Seed of the random initialization.")] = 0,
    as_json: Json = False,
) -> None:
    """Create a tiny model and its word-level tokenizer for the given environments."""
    from ...agents.tiny_model import new_model
    from ...agents.tiny_vision_model import PATCH, new_vision_model
    from ...envs.base import checked_vocabulary
    from ...envs.errors import EnvError
    from ...envs.runner.once import call_once

    if arch not in ("qwen3", "llama"):
        raise InvalidModelOptions(f"unknown architecture {arch!r}: set `--arch` to qwen3 or llama")
    if vision and (arch != "qwen3" or not tie):
        raise InvalidModelOptions(
            "a model with `--vision` is a Qwen3-VL with one matrix for input and output embeddings: "
            "leave `--arch` and `--no-tie` out"
        )
    if patch is not None and not vision:
        raise InvalidModelOptions(f"`--patch {patch}` is for a model that reads images: add `--vision`, or remove it")
    words: list[str] = []
    for env_id in env:
        try:
            words += call_once(env_id, {}, "vocabulary", checked_vocabulary)
        except EnvError as error:
            if not isinstance(error.__cause__, NotImplementedError):
                raise
            raise InvalidModelOptions(
                f"{env_id}: {error.__cause__}; use a model that has a tokenizer instead"
            ) from error
    sizes: Any = {"hidden": hidden, "layers": layers, "heads": heads, "seed": seed, "max_context": context}
    try:
        if vision:
            arch = "qwen3_vl"
            new_vision_model(absolute(path), words, patch_size=patch or PATCH, **sizes)
        else:
            new_model(absolute(path), words, arch="qwen3" if arch == "qwen3" else "llama", tie=tie, **sizes)
    except (ValueError, FileExistsError) as error:
        raise InvalidModelOptions(str(error)) from error
    if as_json:
        print_json({"path": path, "arch": arch, "layers": layers, "hidden": hidden, "words": len(set(words))})
    else:
        echo(f"{path}: {arch}, {layers} layers of {hidden}, {len(set(words))} words")


@app.command()
def merge(
    checkpoint: Annotated[
        str,
        typer.Argument(
            metavar="CHECKPOINT", help="RUN or RUN@UPDATE with `learner.lora`, or the folder of an adapter."
        ),
    ],
    path: Annotated[Path, typer.Argument(metavar="PATH", help="Folder to write; it must not exist.")],
    store: Store = DEFAULT_STORE,
    as_json: Json = False,
) -> None:
    """Merge a LoRA adapter into the model that it adapts, for `model.path` and tools without LoRA."""
    from ...trainer.evaluation.policy import is_model
    from ...trainer.evaluation.stored_policy import RUN_AT, stored_checkpoint
    from ...trainer.learner.model.loading import merge_adapter

    folder = Path(checkpoint)
    if not is_model(checkpoint) and RUN_AT.fullmatch(checkpoint):
        with open_store(store) as database:
            version = stored_checkpoint(database, checkpoint)
            folder = Path(version.checkpoint) if version else folder
    if not folder.is_dir():
        raise InvalidModelOptions(f"there is neither a folder `{checkpoint}` nor a run of this name in the store")
    merge_adapter(folder, path)
    if as_json:
        print_json({"path": path, "checkpoint": folder})
    else:
        echo(f"{path}: `{folder}` merged, in float32")
