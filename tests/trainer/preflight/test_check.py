"""All refusals of a command are found at once, the cheap ones first, and printed with their remedies."""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from turnwise.store.database import open_database
from turnwise.tests.store.making import create_run, sqlite_store
from turnwise.tests.trainer.planning.planned_runs import run_config
from turnwise.trainer.learner.checkpoint import STATE
from turnwise.trainer.preflight.check import check
from turnwise.trainer.preflight.refusal import CHECKS, Command, Cost, Refusal, Refused, Stage, Subject, refuse, refuses
from turnwise.trainer.run.run import train


@pytest.fixture
def registered() -> Iterator[None]:
    """Forget the checks that a test registers."""
    before = len(CHECKS)
    yield
    del CHECKS[before:]


def test_a_run_with_several_faults_names_those_that_take_no_seconds_to_find(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    config = run_config(
        environments=[{"id": "turnwise/TextSit-v0"}, {"id": "turnwise/TextSite-v0"}],
        learner={"device": "cuda"},
        model={"path": str(tmp_path / "nowhere")},
    )
    with pytest.raises(Refused) as refused:
        train(config, store_url=f"sqlite:///{tmp_path}/turnwise.db")
    assert [one.key for one in refused.value.refusals] == ["environments", "learner.device"]
    first, *lines = str(refused.value).splitlines()
    assert first == "2 reasons:"
    assert "did you mean 'turnwise/TextSite-v0'?" in lines[0]
    assert lines[1].endswith("or set `learner.device` to `cpu`")
    assert not (tmp_path / "turnwise.db").exists()


def imported(program: str, *arguments: str) -> set[str]:
    """Return which of the slow libraries a program has imported at its end."""
    whole = f"import sys\n{program}\nprint(*{{'torch', 'transformers', 'ray'}} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", whole, *arguments], capture_output=True, text=True, check=True)
    return set(done.stdout.split())


def test_the_checks_are_registered_without_torch() -> None:
    assert imported("import turnwise.trainer.preflight.check") == set()


def test_a_model_that_is_no_adapter_is_passed_without_torch(tmp_path: Path) -> None:
    program = (
        "from pathlib import Path\n"
        "from turnwise.tests.trainer.planning.planned_runs import run_config\n"
        "from turnwise.trainer.preflight.model import adapter_on_other_weights as find\n"
        "from turnwise.trainer.preflight.refusal import Command, Subject\n"
        "assert find(Subject(run_config(), Command.EVAL, model=Path(sys.argv[1]))) is None"
    )
    assert imported(program, str(tmp_path)) == set()


def test_the_state_of_a_checkpoint_is_read_without_transformers(tmp_path: Path) -> None:
    state = tmp_path / STATE
    state.parent.mkdir()
    state.write_text('{"config": {}}')
    program = (
        "from pathlib import Path\n"
        "from turnwise.trainer.evaluation.policy import _run_config\n"
        "assert _run_config(sys.argv[1]) == {}"
    )
    (tmp_path / "config.json").write_text("{}")
    assert imported(program, str(tmp_path)) == {"torch"}


def test_one_refusal_is_one_line() -> None:
    with pytest.raises(Refused, match=r"^the cup is empty: fill it$"):
        refuse([Refusal("cup", "the cup is empty", "fill it")])
    with pytest.raises(Refused, match=r"^the cup is empty\. It holds 0\.3 l$"):
        refuse([Refusal("cup", "the cup is empty", "It holds 0.3 l")])
    refuse([])


@pytest.mark.usefixtures("registered")
def test_checks_run_by_cost_and_only_for_their_purposes_and_stage() -> None:
    ran = []
    for cost in (Cost.WEIGHTS, Cost.CONFIGURATION, Cost.STORE):

        @refuses("key", cost, Command.BRANCH)
        def one(subject: Subject, cost: Cost = cost) -> None:
            ran.append(cost)

    assert check(Subject(run_config(), Command.BRANCH)) == []
    assert ran == [Cost.CONFIGURATION, Cost.STORE, Cost.WEIGHTS]
    check(Subject(run_config(), Command.BRANCH), Stage.ACTORS)
    check(Subject(run_config(), Command.DOCTOR))
    assert len(ran) == 3


@pytest.mark.usefixtures("registered")
def test_the_error_of_one_check_does_not_hide_another_and_equal_ones_are_one() -> None:
    for number in (1, 2):

        @refuses("key", Cost.STORE, Command.BRANCH)
        def one(subject: Subject, number: int = number) -> Iterator[Refusal]:
            yield Refusal("other", f"reason {number}")
            refuse([Refusal("key", "the same")])

    assert list(map(str, check(Subject(run_config(), Command.BRANCH)))) == ["reason 1", "the same", "reason 2"]


def test_a_name_that_is_taken_is_refused_with_the_other_reasons(tmp_path: Path) -> None:
    database = open_database(sqlite_store(tmp_path))
    create_run(database, "planned", config=run_config(seed=1).resolved(), config_hash=run_config(seed=1).digest())
    database.close()
    config = run_config(environments=[{"id": "turnwise/TextSit-v0"}])
    with pytest.raises(Refused, match=r"(?s)2 reasons:.*other values of .*`seed`.*--fork.*did you mean") as refused:
        train(config, store_url=f"sqlite:///{tmp_path}/turnwise.db")
    assert [one.key for one in refused.value.refusals] == ["name", "environments"]
