"""``turnwise model``: the policies to start from."""

from pathlib import Path
from typing import Annotated

import typer

from ...errors import TurnwiseError

app = typer.Typer(help="Models to start from.", no_args_is_help=True)


class CannotMakeModel(TurnwiseError):
    """The model that was asked for cannot be made."""


@app.callback()
def root() -> None:
    """Models to start from."""


@app.command()
def new(
    path: Annotated[Path, typer.Argument(help="The folder to write; it must not hold a model yet.")],
    env: Annotated[list[str], typer.Option("--env", help="An environment whose words it must know; repeat for more.")],
    hidden: Annotated[int, typer.Option(min=8, help="Width.")] = 128,
    layers: Annotated[int, typer.Option(min=1, help="Depth.")] = 2,
    heads: Annotated[int, typer.Option(min=1, help="Attention heads.")] = 4,
    arch: Annotated[str, typer.Option(help="qwen3 or llama.")] = "qwen3",
    tie: Annotated[bool, typer.Option(help="One matrix for reading and writing words.")] = True,
    context: Annotated[int, typer.Option(min=16, help="The longest context, in tokens.")] = 1024,
    seed: Annotated[int, typer.Option(help="Of its random initialisation.")] = 0,
) -> None:
    """Make a tiny model and its word-level tokenizer for the environments named."""
    from ...agents.tiny_model import new_model
    from ...envs import registry

    if arch not in ("qwen3", "llama"):
        raise CannotMakeModel(f"no architecture {arch!r}: qwen3 or llama")
    words: list[str] = []
    for env_id in env:
        world = registry.make(env_id)
        try:
            words += world.vocabulary()
        except NotImplementedError as error:
            raise CannotMakeModel(f"{env_id}: {error}; use a model with a tokenizer of its own instead") from error
        finally:
            world.close()
    try:
        new_model(
            path,
            words,
            hidden=hidden,
            layers=layers,
            heads=heads,
            arch="qwen3" if arch == "qwen3" else "llama",
            tie=tie,
            seed=seed,
            max_context=context,
        )
    except (ValueError, FileExistsError) as error:
        raise CannotMakeModel(str(error)) from error
    typer.echo(f"{path}: {arch}, {layers} layers of {hidden}, {len(set(words))} words")
