"""``turnwise trajectories export`` and ``import``: trajectories as files that other programs read and write."""

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from ...base.process.start import absolute
from ...base.user_files import open_regular_file
from ...errors import TurnwiseError
from ...records import Group, Source, Split, Task, Trajectory
from ...store.project import DEFAULT_STORE
from ..options import (
    MAX_COUNT,
    Imports,
    Json,
    OfEnv,
    OfPolicy,
    OfPurpose,
    OfRun,
    OfStatus,
    OfSuccess,
    Store,
    open_store,
)
from ..terminal.output import Estimate, print_fields, print_json
from .envs import EnvOptions, read_env_options, read_options

if TYPE_CHECKING:
    from ...store.database import Database
    from ...store.exchange.episodes import Episode
    from ...store.exchange.exporting import MakeWriter
    from ...store.exchange.importing import Encode

Format = Literal["parquet", "parquet-steps", "atif", "messages", "sharegpt", "html"]
RUN_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,79}")
HASH_CHUNK_BYTES = 2**20


class CannotExchange(TurnwiseError):
    """The arguments of an export or import do not fit together."""


def export_trajectories(
    out: Annotated[Path, typer.Option("--out", metavar="PATH", help="The file to write; a folder for atif and html.")],
    trajectories: Annotated[
        list[str] | None,
        typer.Argument(metavar="ID", help="IDs of trajectories. Default: all that the filters select."),
    ] = None,
    kind: Annotated[
        Format,
        typer.Option(
            "--format",
            help="parquet: a row per trajectory, which `import` reads; parquet-steps: a row per step; atif: a document "
            "per trajectory; messages, sharegpt: a line of JSON per trajectory; html: a page per trajectory, which "
            "opens without a network, or one page for `--out NAME.html`.",
        ),
    ] = "parquet",
    run: OfRun = None,
    status: OfStatus = None,
    env: OfEnv = None,
    purpose: OfPurpose = None,
    source: Annotated[Source | None, typer.Option(help="Only trajectories of this source, such as expert.")] = None,
    policy: OfPolicy = None,
    success: OfSuccess = None,
    limit: Annotated[
        int | None, typer.Option("--limit", min=1, help="Maximum number of trajectories, oldest first.")
    ] = None,
    instructions: Annotated[
        bool,
        typer.Option(
            "--instructions/--no-instructions",
            help="atif, messages, sharegpt: begin with the instructions of the environment, which must be installed.",
        ),
    ] = True,
    images: Annotated[
        bool, typer.Option("--images/--no-images", help="parquet, atif, html: include the images.")
    ] = True,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace an existing file.")] = False,
    modules: Imports = None,
    store: Store = DEFAULT_STORE,
    as_json: Json = False,
) -> None:
    """Write trajectories to a file, with everything that looks like a key, a token or a password replaced by ***."""
    from ...store import queries
    from ...store.exchange.episodes import selected_ids
    from ...store.exchange.exporting import export, no_system_prompt

    filters: dict[str, Any] = {"run": run, "env": env, "policy": policy, "success": success}
    filters |= {"status": status and status.value, "purpose": purpose and purpose.value}
    filters["source"] = source and source.value
    if trajectories and any(value is not None for value in (*filters.values(), limit)):
        raise CannotExchange("name trajectories by their ids, or select them by filters, but not both")
    system = _system_prompts() if instructions and kind in ("atif", "messages", "sharegpt") else no_system_prompt
    with open_store(store) as database:
        if run is not None:
            with database.read() as conn:
                queries.find_run(conn, run)
        left_out: list[int] = []
        ids = trajectories or list(selected_ids(database, limit=limit, pruned=left_out.append, **filters))
        made = _pages(database, single=out.suffix == ".html") if kind == "html" else kind
        done = export(database, _counted(ids), absolute(out), made, system=system, images=images, overwrite=overwrite)
    if as_json:
        print_json({**asdict(done), "pruned": sum(left_out)})
    else:
        ends = ", ".join(f"{end} {count}" for end, count in done.by_end.items())
        print_fields(
            {
                "written": done.path,
                "trajectories": f"{done.trajectories} ({ends})",
                "steps": str(done.steps),
                "with secrets": f"{done.scrubbed} (replaced by ***)",
                **({"left out": f"{sum(left_out)} (retention removed their content)"} if sum(left_out) else {}),
            }
        )


def _counted(ids: Sequence[str]) -> Iterator[str]:
    """Yield the ids, and report how many were written."""
    progress = Estimate("trajectories written")
    for done, one in enumerate(ids):
        progress(done, len(ids))
        yield one


def _pages(database: "Database", *, single: bool) -> "MakeWriter":
    """Return the writer of pages."""
    from ..viewer.document import EpisodeFiles

    return lambda path, _: EpisodeFiles(database, path, single=single)


def import_trajectories(
    paths: Annotated[
        list[Path],
        typer.Argument(metavar="PATH", help="Files of `export` (.parquet), or ATIF: .json, .jsonl, a folder."),
    ],
    name: Annotated[
        str | None,
        typer.Option("--name", help="Name of the run that holds them. Default: import- and the hash of the files."),
    ] = None,
    env: Annotated[
        str | None, typer.Option("--env", metavar="ID", help="The environment of ATIF documents that name none.")
    ] = None,
    option: EnvOptions = None,
    seed: Annotated[int, typer.Option("--seed", min=0, max=2**63 - 1, help="With --env: seed of the task.")] = 0,
    split: Annotated[Split, typer.Option("--split", help="With --env: split of the task.")] = "train",
    tokenizer: Annotated[
        Path | None,
        typer.Option("--tokenizer", metavar="FOLDER", help="Encode episodes without tokens by this model's tokenizer."),
    ] = None,
    max_images: Annotated[
        int | None,
        typer.Option(
            "--max-images",
            min=1,
            max=MAX_COUNT,
            help="With --tokenizer: images in the context, the newest. Default: that of `horizon.max_images`.",
        ),
    ] = None,
    modules: Imports = None,
    store: Store = DEFAULT_STORE,
    as_json: Json = False,
) -> None:
    """Store trajectories as those of an expert, for demonstrations; a trajectory that the store has is left out."""
    from ... import __version__
    from ...envs.tasks import task_id
    from ...store.database import open_database
    from ...store.exchange.importing import import_episodes

    options = read_options(option) if env is None else read_env_options(env, option)
    if name is not None and not RUN_NAME.fullmatch(name):
        raise CannotExchange(f"`--name {name}`: a run's name has at most 80 letters, digits, `.`, `_` and `-`")
    if options and env is None:
        raise CannotExchange("`--option` belongs to an environment: add `--env ID`")
    if max_images is not None and tokenizer is None:
        raise CannotExchange("`--max-images` is for episodes that the import encodes: add `--tokenizer FOLDER`")
    files = [file for path in paths for file in _files(path)]
    digest = _digest(files)
    config = {"files": digest, "env": env, "options": options, "seed": seed, "split": split}
    run = name or f"import-{digest[:12]}"

    def make_id(task: Task) -> str:
        return task_id(task.env_id, task.env_version, task.seed, task.split, task.options)

    database = open_database(store, create=True)
    try:
        done = import_episodes(
            database,
            run,
            _episodes([absolute(path) for path in paths], env, options, seed, split),
            config=config,
            code_version=__version__,
            task_id=make_id,
            encode=_encoder(tokenizer, max_images) if tokenizer else None,
        )
    finally:
        database.close()
    if as_json:
        print_json(done)
    else:
        added = f"{done.added} (as demonstrations: without log-probabilities and versions)"
        print_fields({"run": done.run, "added": added, "in the store already": str(done.skipped)})


def _files(path: Path) -> list[Path]:
    """Return the files that an import reads at ``path``. Raises CannotExchange."""
    if path.is_dir():
        found = sorted(path.glob("*.json"))
        if not found:
            raise CannotExchange(f"the folder `{path}` has no `.json` file")
        return found
    if path.suffix not in (".parquet", ".json", ".jsonl"):
        raise CannotExchange(f"`{path}` is neither `.parquet`, `.json` nor `.jsonl`")
    return [path]


def _digest(files: list[Path]) -> str:
    """Return the SHA-256 of the contents of files, in hex."""
    total = sha256()
    for file in files:
        with open_regular_file(file) as content:
            one = sha256()
            while data := content.read(HASH_CHUNK_BYTES):
                one.update(data)
        total.update(one.digest())
    return total.hexdigest()


def _episodes(
    paths: list[Path], env: str | None, options: dict[str, Any], seed: int, split: str
) -> "Iterator[Episode]":
    from ...envs.tasks import env_version
    from ...store.exchange.atif.origin import TaskOrigin
    from ...store.exchange.atif.reading import read_atif
    from ...store.exchange.parquet import read_parquet

    task = None
    if env is not None:
        task = TaskOrigin(env_id=env, env_version=env_version(env), seed=seed, split=split, options=options)
    for path in paths:
        yield from read_parquet(path) if path.suffix == ".parquet" else read_atif(path, task)


def _system_prompts() -> Callable[[Group], str]:
    """Return a function that reads the instructions of a group's environment, once per environment and options."""
    from ...envs.runner.observations import instructions
    from ...envs.runner.once import call_once
    from ...envs.tasks import env_key

    prompts: dict[str, str] = {}

    def read(group: Group) -> str:
        key = env_key(group.task)
        if key not in prompts:
            prompts[key] = call_once(group.task.env_id, group.task.options, "instructions", instructions)
        return prompts[key]

    return read


def _encoder(folder: Path, max_images: int | None = None) -> "Encode":
    """Return a function that adds the messages of an expert's turns. Raises CannotExchange."""
    from ...agents.demonstrations import with_messages
    from ...agents.tokens.renderer import Image
    from ...agents.tokens.renderers import load_renderer
    from ...trainer.algorithms.horizons.base import HorizonSchedule

    window: int = HorizonSchedule.model_fields["max_images"].default if max_images is None else max_images
    try:
        renderer = load_renderer(folder)
    except (OSError, ValueError) as error:
        raise CannotExchange(f"`--tokenizer {folder}`: {error}") from error
    system = _system_prompts()

    def encode(episode: "Episode") -> Trajectory:
        group, trajectory = episode.group, episode.trajectory
        prompt = "\n\n".join(part for part in (group.prompt_prefix, system(group)) if part)
        try:
            return with_messages(trajectory, renderer, prompt, lambda name: Image.of(episode.images[name]), window)
        except ValueError as error:
            raise CannotExchange(f"trajectory {trajectory.id} cannot be encoded: {error}") from error

    return encode
