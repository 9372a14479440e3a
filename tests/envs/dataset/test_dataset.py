"""An environment of rows: its rows, its rubric, its episodes, and the errors of its author."""

import asyncio
import inspect
import json
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import gymnasium
import pyarrow
import pytest
from datasets import Dataset, DatasetDict
from pyarrow import parquet
from turnwise.envs import EnvironmentBroken, EnvironmentFailed, make
from turnwise.envs.authoring.check import check
from turnwise.envs.authoring.checks import CHECKS
from turnwise.envs.dataset import coroutines
from turnwise.envs.dataset.rows import NUMBERS
from turnwise.envs.dataset.rubric import Unscored
from turnwise.envs.errors import EnvTimeout, ScoringTimeout
from turnwise.envs.runner.env_thread import EnvThread
from turnwise.records import UNSCORED
from turnwise.tests.envs.dataset.capitals import CAPITALS, Capitals, brief, correct, kind

ENV = "dataset/Capitals-v0"


class Hints(Capitals):
    """Two tries, with a hint between them."""

    restorable = True
    max_turns = 2

    async def respond(self, action: str, row: dict[str, Any], conversation: list[dict[str, Any]]) -> str | None:
        assert conversation[-1] == {"role": "assistant", "content": action}
        return None if action == row["answer"] else f"It begins with {row['answer'][0]}."


def number(seed: int) -> int:
    """Return the number of the row of a task."""
    return seed % NUMBERS


@pytest.fixture(autouse=True)
def registered() -> Iterator[None]:
    for env_id, entry in ((ENV, Capitals), ("dataset/Hints-v0", Hints)):
        gymnasium.register(env_id, entry_point=entry)  # type: ignore[arg-type]
    yield
    for env_id in (ENV, "dataset/Hints-v0"):
        gymnasium.registry.pop(env_id)


def test_the_weighted_sum_of_the_reward_functions_is_the_reward_of_the_only_turn() -> None:
    env = make(ENV)
    assert env.reset(seed=1)[0] == "Capital of Peru?"
    observation, reward, terminated, truncated, info = env.step("Lima")
    assert (observation, reward, terminated, truncated) == ("", 1.25, True, False)
    assert info["reward_parts"] == {"correct": 1.0, "brief": 0.25}
    assert info["success"] is True
    env.reset(seed=0, options={"split": "test"})
    _, reward, _, _, info = env.step("Lima")
    assert reward == pytest.approx(0.5 * (1 - 4 / 18))
    assert info["success"] is False
    assert env.step("Lima")[:3] == ("ended", 0.0, True)


def test_the_rows_of_a_split_are_its_tasks_and_are_read_once_per_process() -> None:
    Capitals.loads = 0
    tasks = [(env.tasks("train"), env.tasks("test")) for env in (make(ENV), make(ENV))]
    assert tasks[0] == tasks[1]
    assert [list(map(number, seeds or ())) for seeds in tasks[0]] == [[0, 1], [0]]
    assert Capitals.loads <= 2
    env = make(ENV)
    assert {env.reset()[0] for _ in range(20)} == {row["question"] for row in CAPITALS}
    with pytest.raises(EnvironmentFailed, match="2 rows of `train`, with the seeds 0 to 1; the seed 2 is none"):
        env.reset(seed=2)


def test_several_turns_end_with_respond_or_at_the_limit() -> None:
    env = make("dataset/Hints-v0")
    env.reset(seed=0)
    observation, reward, terminated, _, info = env.step("Rome")
    assert (observation, reward, terminated, info["reward_parts"]) == ("It begins with P.", 0.0, False, {})
    kept = env.snapshot()
    assert env.step("Paris")[4]["success"] is True
    env.restore(kept)
    observation, _, terminated, _, info = env.step("Prague")
    assert (terminated, info["success"]) == (True, False)
    assert env.unwrapped.conversation[-1]["content"] == observation  # type: ignore[attr-defined]


@pytest.mark.parametrize("env_id", [ENV, "dataset/Hints-v0"])
def test_it_keeps_the_contract_of_environments(env_id: str, monkeypatch: pytest.MonkeyPatch) -> None:
    kept = {name: each for name, each in CHECKS.items() if name != "another process"}
    monkeypatch.setattr("turnwise.envs.authoring.check.CHECKS", kept)
    report = check(env_id)
    assert report.ok, "\n".join(report.lines())


def test_an_asynchronous_function_works_in_the_thread_of_an_environment_and_in_a_running_loop() -> None:
    async def play() -> None:
        thread = EnvThread(ENV)
        await thread.make(5)
        await thread.reset(0, "train", 5)
        assert (await thread.step("Paris", 5)).reward_parts == {"correct": 1.0, "brief": 0.25}
        await thread.close(5)
        env = kind(rubric={brief: 1.0})
        env.reset(seed=0)
        assert env.step("Paris")[1] == 0.5

    asyncio.run(play())


def test_asynchronous_functions_run_at_the_same_time_and_end_at_the_timeout() -> None:
    meet = asyncio.Barrier(2)

    async def one() -> int:
        return await meet.wait() * 0 + 1

    async def other() -> int:
        return await meet.wait() * 0 + 1

    async def endless() -> None:
        await asyncio.Event().wait()

    env = kind(rubric={one: 1.0, other: 2.0})
    env.reset(seed=0)
    assert env.step("Paris")[1] == 3.0
    env = kind(rubric={endless: 1.0})
    env.reset(seed=0)
    env.scoring_timeout_s = 0.0
    with pytest.raises(ScoringTimeout, match=r"function `endless` \(row 0 of `train`\) did not return before its"):
        env.step("Paris")


def test_the_timeout_of_a_function_that_has_returned_ends_no_other_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(coroutines, "GRACE_S", 0.05)

    async def at_once() -> int:
        return 1

    async def waits_for_its_turn() -> int:
        with coroutines.unlimited():
            await asyncio.sleep(0.5)
        return 1

    assert coroutines.results_of([at_once(), waits_for_its_turn()], 0.2, "they") == [1, 1]


def test_a_function_that_blocks_the_event_loop_ends_at_the_timeout_and_blocks_no_later_call(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(coroutines, "GRACE_S", 0.05)
    unblocked = threading.Event()
    running: list[asyncio.AbstractEventLoop] = []

    async def blocking() -> int:
        running.append(asyncio.get_running_loop())
        return unblocked.wait(60)

    env = kind(rubric={blocking: 1.0})
    env.reset(seed=0)
    env.scoring_timeout_s = 0.1
    with pytest.raises(
        ScoringTimeout, match=r"`blocking` \(row 0 of `train`\) did not .* blocks their event loop; `await`"
    ):
        env.step("Paris")
    other = kind(rubric={brief: 1.0})
    other.reset(seed=0)
    other.deadline = time.monotonic() + 10
    assert other.step("Paris")[1] == 0.5
    unblocked.set()
    ended = time.monotonic() + 10
    while not (running and running[0].is_closed()):
        assert time.monotonic() < ended
        time.sleep(0.01)


@pytest.mark.parametrize("error", [SystemExit, KeyboardInterrupt, asyncio.CancelledError])
def test_a_coroutine_that_raises_an_exit_is_an_error_and_later_calls_work(error: type[BaseException]) -> None:
    async def leaving(*_: Any, **__: Any) -> float:
        raise error

    async def leaving_later() -> float:
        await asyncio.create_task(leaving())
        return 1

    env = kind(rubric={leaving_later: 1.0})
    env.reset(seed=0)
    env.deadline = time.monotonic() + 10
    with pytest.raises(EnvironmentFailed, match=rf"(?s)function `leaving_later` \(row 0.*{error.__name__}"):
        env.step("Paris")
    env.respond = leaving  # type: ignore[assignment, method-assign]
    env.reset(seed=0)
    with pytest.raises(EnvironmentFailed, match=rf"(?s)`respond` raised.*{error.__name__}"):
        env.step("Paris")
    env = kind(rubric={brief: 1.0})
    env.reset(seed=0)
    env.deadline = time.monotonic() + 10
    assert env.step("Paris")[1] == 0.5


def test_load_may_ask_for_the_rows_of_the_other_split_and_delays_no_other_environment() -> None:
    read = threading.Event()

    class Rest(Capitals):
        def load(self, split: str) -> Any:
            if split == "train":
                assert read.wait(10)
                return CAPITALS
            return [{"question": "?", "answer": str(len(self.tasks("train")))}]

    gymnasium.register("dataset/Rest-v0", entry_point=Rest)  # type: ignore[arg-type]
    rows: list[Any] = []
    try:
        waiting = threading.Thread(target=lambda: rows.append(make("dataset/Rest-v0").tasks("test")), daemon=True)
        waiting.start()
        other = threading.Thread(target=lambda: rows.append(make(ENV).tasks("train")), daemon=True)
        other.start()
        other.join(5)
        assert [list(map(number, seeds)) for seeds in rows] == [[0, 1]]
        read.set()
        waiting.join(5)
        assert [list(map(number, seeds)) for seeds in rows] == [[0, 1], [0]]
    finally:
        gymnasium.registry.pop("dataset/Rest-v0")


def test_a_subclass_need_not_call_the_constructor_of_its_base() -> None:
    class Own(Capitals):
        def __init__(self) -> None:
            self.own = True

    env = Own()
    assert env.reset(seed=0)[0] in env.observation_space
    assert env.step("Paris")[1] == 1.25
    assert env.action_space is not Own().action_space


@pytest.mark.parametrize("name", ["action", "conversation", "row", "self"])
def test_a_column_with_the_name_of_another_value_is_refused_where_a_function_takes_it(name: str) -> None:
    def taking(**_: Any) -> float:
        return 1

    taking.__signature__ = inspect.Signature([inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY)])  # type: ignore[attr-defined]
    rows = [{**CAPITALS[0], name: "a column"}]
    env = kind(rows, rubric={taking: 1.0})
    with pytest.raises(EnvironmentBroken, match=f"`taking` takes `{name}`, .* row 0 of `train` has a column of this"):
        env.reset(seed=0)
    env = kind(rows, rubric={lengthy: 1.0})
    env.reset(seed=0)
    assert env.step("Paris")[1] == 5


def lengthy(letters: int) -> int:
    return letters


def test_parameters_are_columns_or_the_state_of_the_episode() -> None:
    seen: list[Any] = []

    def all_of(self: Any, conversation: Any, letters: int, missing: str = "default", **columns: Any) -> float:
        seen.extend([self, conversation, letters, missing, columns])
        conversation.clear()
        return 1

    env = kind(rubric={all_of: 1.0})
    env.reset(seed=0)
    env.step("Paris")
    messages = [{"role": "user", "content": "Capital of France?"}, {"role": "assistant", "content": "Paris"}]
    assert seen[0] is env
    assert seen[2:4] == [5, "default"]
    assert seen[4]["answer"] == "Paris"
    assert env.conversation == messages


def test_a_function_that_changes_its_row_changes_no_later_episode() -> None:
    def greedy(row: dict[str, Any]) -> float:
        row["question"] = "changed"
        return 1

    env = kind(rubric={greedy: 1.0})
    env.reset(seed=0)
    env.step("")
    assert env.reset(seed=0)[0] == "Capital of France?"


def raises(action: str) -> float:
    raise ZeroDivisionError("no division")


def silent() -> None:
    return None


def text() -> str:
    return "yes"


def not_a_number() -> float:
    return float("nan")


def misspelt(anser: str) -> float:
    return len(anser)


async def late() -> float:
    raise KeyError("score")


@pytest.mark.parametrize(
    ("rubric", "error"),
    [
        ({raises: 1.0}, r"the reward function `raises` \(row 0 of `train`\) raised\n.*ZeroDivisionError: no division"),
        ({late: 1.0}, r"the reward function `late` \(row 0 of `train`\) raised\n.*KeyError: 'score'"),
        ({silent: 1.0}, "`silent` returned None for row 0 of `train`; it must return a finite number"),
        ({text: 1.0}, "`text` returned 'yes' for row 0"),
        ({not_a_number: 1.0}, "`not_a_number` returned nan for row 0"),
        ({misspelt: 1.0}, "takes `anser`, which is neither .*`train` has no such column .did you mean 'answer'"),
        ({}, r"`Made.rubric` must map reward functions to weights, as in `\{correct: 1.0\}`"),
        ({correct: 0}, "the weight of `correct` is 0; it must be a number, not 0"),
        ({correct: "1"}, "the weight of `correct` is '1'"),
        ({"correct": 1}, "'correct' is not a function"),
        ({lambda action: 1: 1.0}, "has no name for `reward_parts`: define a function"),
    ],
)
def test_a_fault_of_the_rubric_is_an_error_and_never_a_reward(rubric: Any, error: str) -> None:
    env = kind(rubric=rubric)
    with pytest.raises((EnvironmentBroken, EnvironmentFailed), match=f"(?s){error}"):
        assert env.reset(seed=0) and env.step("Paris")  # noqa: PT018


def test_a_function_that_could_not_score_is_named_in_the_extras_of_the_episode() -> None:
    def polite(action: str) -> float:
        return Unscored(0.5)

    env = kind(rubric={correct: 1.0, polite: 1.0})
    env.reset(seed=0, options={"split": "train"})
    _, reward, _, _, info = env.step("Paris")
    assert (reward, info["extras"]) == (1.5, {UNSCORED: ["polite"]})


def jsonl(path: Path) -> Path:
    path.write_text("\n".join(map(json.dumps, CAPITALS)) + "\n\n")
    return path


def parquet_file(path: Path) -> Path:
    parquet.write_table(pyarrow.Table.from_pylist(CAPITALS), path)
    return path


@pytest.mark.parametrize(
    "source",
    [
        lambda folder: tuple(CAPITALS),
        lambda folder: jsonl(folder / "rows.jsonl"),
        lambda folder: str(jsonl(folder / "rows.jsonl")),
        lambda folder: parquet_file(folder / "rows.parquet"),
        lambda folder: Dataset.from_list(CAPITALS),
    ],
    ids=["list", "jsonl", "text", "parquet", "datasets"],
)
def test_rows_come_from_lists_files_and_datasets(source: Callable[[Path], Any], tmp_path: Path) -> None:
    env = kind(source(tmp_path))
    assert env.tasks("train") == kind().tasks("train")
    assert env.reset(seed=1)[0] == "Capital of Peru?"
    assert env.row == CAPITALS[1]


def test_a_relative_path_starts_at_the_folder_of_the_module() -> None:
    env = kind("no_such_file.jsonl")
    with pytest.raises(EnvironmentBroken, match=r"`Made.load\('train'\)`: `.*dataset/no_such_file.jsonl` does"):
        env.tasks("train")


@pytest.mark.parametrize(
    ("source", "error"),
    [
        ([], r"`Made.load\('train'\)` has no rows"),
        (["text"], "the first row of the list is not a mapping"),
        (iter(CAPITALS), "returned a list_iterator, which has no length: return a list"),
        (DatasetDict(train=Dataset.from_list(CAPITALS)), "a DatasetDict with the keys 'train': return the rows of one"),
        ("rows.csv", "a file of rows ends in .jsonl or .parquet"),
        ([{"questoin": "?"}], "row 0 of `train` has no column `question` .did you mean 'questoin'"),
        ([{"question": 3}], "row 0 of `train` has a int in `question`, not a text"),
    ],
)
def test_rows_that_cannot_be_used_are_named(source: Any, error: str) -> None:
    env = kind(source, rubric={raises: 1.0})
    with pytest.raises(EnvironmentBroken, match=error):
        env.reset(seed=0)


@pytest.mark.parametrize(
    ("content", "name", "error"),
    [
        ("", "rows.jsonl", "`.*rows.jsonl` has no rows"),
        ('{"question": "?"}\n{', "rows.jsonl", "line 2, is not JSON"),
        ("[1]", "rows.jsonl", "line 1, is not an object"),
        ('{"a": 1}\n{"a": [NaN]}', "rows.jsonl", "line 2, is not JSON: `NaN` is not a finite number"),
        ('{"a": 1e999}', "rows.jsonl", "line 1, is not JSON: `1e999` is not a finite number"),
        ('{"a": {"b": 1, "b": 2}}', "rows.jsonl", "line 1, is not JSON: an object has the key `b` twice"),
        ("PAR1", "rows.parquet", "is not a Parquet file that can be read"),
    ],
)
def test_a_file_that_cannot_be_read_is_named(content: str, name: str, error: str, tmp_path: Path) -> None:
    (tmp_path / name).write_text(content)
    with pytest.raises(EnvironmentBroken, match=error):
        kind(tmp_path / name).tasks("train")


def test_an_answer_without_the_expected_form_is_invalid() -> None:
    class Formed(Hints):
        def is_valid(self, action: str) -> bool:
            return action.istitle()

    env = Formed()
    env.reset(seed=0)
    assert [env.step(action)[4]["action_valid"] for action in ("paris", "Rome")] == [False, True]


def test_a_check_of_an_answer_that_returns_no_truth_value_is_named() -> None:
    class Odd(Hints):
        def is_valid(self, action: str) -> Any:
            return [1, 2]

    env = Odd()
    env.reset(seed=0)
    with pytest.raises(EnvironmentBroken, match=r"is_valid\(\) of Odd returned \[1, 2\]; it must return True or False"):
        env.step("paris")


def test_a_blocked_loop_ends_a_wait_that_could_not_begin() -> None:
    async def blocks_later() -> float:
        asyncio.get_running_loop().call_later(0.05, time.sleep, 5)
        return 1.0

    async def second() -> float:
        return 1.0

    assert coroutines.results_of([blocks_later()], 5, "it") == [1.0]
    time.sleep(0.2)
    waiting, began = second(), time.monotonic()
    with pytest.raises(EnvTimeout, match="blocks their event loop"):
        coroutines.results_of([waiting], 0.2, "second")
    assert time.monotonic() - began < 4
    waiting.close()
