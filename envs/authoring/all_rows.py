"""The check of a data set that reads all rows of both splits; the other checks play at most five rows of a split."""

from collections.abc import AsyncIterator, Mapping

from ...records import SPLITS
from ..base import Adapted, TurnEnv, checked_actions, provides
from ..dataset import DatasetEnv
from ..dataset.rows import NUMBERS, place
from ..errors import EnvError, EnvTimeout
from ..runner.env_thread import EnvThread
from .subject import CheckFailed, Subject


async def rows_usable(subject: Subject, owner: EnvThread) -> list[str]:
    """Check that each row begins an episode, and that the splits share no row; return what else was seen.

    An environment without rows passes.
    """
    hashes = await owner.run("rows", _hashes, subject.timeout_s)
    if not hashes:
        return []
    faults: dict[str, list[str]] = {}
    async for where, failure in _resets(subject, owner):
        if failure is not None:
            faults.setdefault(str(failure).replace(where, "the row"), []).append(str(failure))
    nulls = await owner.run("nulls", _nulls, subject.timeout_s)
    train, test = [hashes[split] for split in SPLITS]
    known = set(train)
    lines = [f"{_rows(len(found))}: {found[0]}" for found in faults.values()]
    if shared := [number for number, one in enumerate(test) if one in known]:
        lines.append(
            f"{_rows(len(shared))} of the {len(test)} of `test` occur in `train` too, the first is "
            f"{place('test', shared[0])}: an evaluation would use tasks of the training"
        )
    if lines:
        raise CheckFailed("\n".join([*lines, *_copies(hashes), *nulls]))
    return ["each row begins an episode", *_copies(hashes), *nulls]


async def words_of_rows(subject: Subject, owner: EnvThread) -> dict[str, str]:
    """Return the words of the first observations and actions of all rows, each with its first row; none without rows.

    A row that begins no episode is left out.
    """
    words: dict[str, str] = {}
    if not await owner.run("rows", _hashes, subject.timeout_s):
        return words
    async for where, failure in _resets(subject, owner):
        if failure is None:
            texts = await owner.run("actions", _actions, subject.timeout_s)
            for word in " ".join([subject.text, *texts]).split():
                words.setdefault(word, where)
    return words


async def _resets(subject: Subject, owner: EnvThread) -> AsyncIterator[tuple[str, EnvError | None]]:
    """Reset with each row; yield its place, and why it begins no episode."""
    for split in SPLITS:
        for seed in await subject.seeds(owner, NUMBERS, split):
            failure: EnvError | None = None
            try:
                await subject.reset(owner, seed, split)
            except EnvTimeout:
                raise
            except EnvError as error:
                failure = error
            yield place(split, seed % NUMBERS), failure


def _dataset(env: TurnEnv) -> DatasetEnv | None:
    core = env.core if isinstance(env, Adapted) else env
    return core if isinstance(core, DatasetEnv) else None


def _hashes(env: TurnEnv) -> dict[str, list[str]]:
    core = _dataset(env)
    return {} if core is None else {split: core.row_hashes(split) for split in SPLITS}


def _nulls(env: TurnEnv) -> list[str]:
    """Return in how many rows a column that the rubric takes is null: a line per column and split."""
    core, found = _dataset(env), dict[tuple[str, str], list[int]]()
    for split in SPLITS if core is not None else ():
        for number, column in core.nulls(split):
            found.setdefault((column, split), []).append(number)
    return [
        f"`{column}` is null in {_rows(len(numbers))}, the first is {place(split, numbers[0])}"
        for (column, split), numbers in found.items()
    ]


def _copies(hashes: Mapping[str, list[str]]) -> list[str]:
    """Return how many rows repeat an earlier one: a line per split."""
    lines = []
    for split, found in hashes.items():
        first = dict(zip(reversed(found), range(len(found) - 1, -1, -1), strict=True))
        if copies := [number for number, one in enumerate(found) if first[one] != number]:
            lines.append(f"{_rows(len(copies))} of `{split}` repeat an earlier one, the first is row {copies[0]}")
    return lines


def _actions(env: TurnEnv) -> list[str]:
    texts = [text for text, _ in checked_actions(env)] if provides(env, "valid_actions") else []
    return [*texts, env.oracle()] if provides(env, "oracle") else texts


def _rows(count: int) -> str:
    return "1 row" if count == 1 else f"{count} rows"
