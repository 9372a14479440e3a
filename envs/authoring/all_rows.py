"""The reading of all rows of a data set; the checks themselves play at most five rows of a split."""

from collections.abc import Iterator
from contextlib import suppress

from ..base import Adapted, TurnEnv, checked_actions, provides
from ..dataset import DatasetEnv
from ..dataset.rows import NUMBERS, place
from ..errors import EnvError, EnvTimeout
from ..runner.env_thread import EnvThread
from .subject import CheckFailed, Subject


async def read_rows(subject: Subject, owner: EnvThread) -> list[str]:
    """Reset with each row, and collect the words in ``subject``; return the copies, and nothing without rows.

    Raises:
        CheckFailed: rows begin no episode, or both splits have them.
    """
    hashes, faults = await owner.run("rows", _hashes, subject.timeout_s), dict[str, list[str]]()
    for split in hashes:
        for seed in await subject.seeds(owner, NUMBERS, split):
            where = place(split, seed % NUMBERS)
            try:
                seen = await subject.reset(owner, seed, split)
                actions = await owner.run("actions", lambda env: " ".join(_actions(env)), subject.timeout_s)
            except EnvTimeout:
                raise
            except EnvError as error:
                faults.setdefault(str(error).replace(where, "the row"), []).append(str(error))
            else:
                for word in f"{seen.text} {actions}".split():
                    subject.words.setdefault(word, where)
    lines = [f"{len(found)} rows: {found[0]}" for found in faults.values()]
    known = set(hashes.get("train", ()))
    if shared := [number for number, one in enumerate(hashes.get("test", ())) if one in known]:
        lines.append(
            f"{len(shared)} rows of the {len(hashes['test'])} of `test` occur in `train` too, the first is "
            f"{place('test', shared[0])}: an evaluation would use tasks of the training"
        )
    copies = [
        f"{count} rows of `{split}` are copies" for split, own in hashes.items() if (count := len(own) - len({*own}))
    ]
    if lines:
        raise CheckFailed("\n".join([*lines, *copies]))
    return copies


def _hashes(env: TurnEnv) -> dict[str, list[str]]:
    core = env.core if isinstance(env, Adapted) else env
    return {split: core.row_hashes(split) for split in ("train", "test")} if isinstance(core, DatasetEnv) else {}


def _actions(env: TurnEnv) -> Iterator[str]:
    if provides(env, "valid_actions"):
        yield from (text for text, _ in checked_actions(env))
    with suppress(NotImplementedError):
        yield str(env.oracle())
