"""Wrong input to ``train`` ends it at once: exit 2, one message that says what to do, and nothing begun."""

import sqlite3
from collections.abc import Callable
from pathlib import Path

import pytest
from turnwise.store.database import open_database
from turnwise.tests.chaos.harness import CONFIG, sizes, url
from turnwise.tests.console.forked_commands import Ended, ForkedCommands

pytestmark = pytest.mark.slow
Train = Callable[..., Ended]


@pytest.fixture
def train(forked_commands: ForkedCommands, tmp_path: Path) -> Train:
    """Return a function that runs ``train`` with other arguments, in the test's folder."""
    options = ["--store", url(tmp_path)]
    return lambda *more: forked_commands.run(tmp_path, "train", str(CONFIG), *more, *options, folder=str(tmp_path))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--set", 'environments.0.id="turnwise/Site-v0"'], "did you mean 'turnwise/TextSite-v0'?"),
        (["--set", 'environments.0.id="no_such_module:Id-v0"'], "cannot import 'no_such_module'"),
        (["--set", "rollout.max_stalenes=1"], "max_staleness"),
        (["--set", 'loss.name="decoupled_pp"'], "decoupled_ppo"),
        (["--set", 'model.path="nowhere"'], "nowhere"),
    ],
)
def test_a_misspelled_input_is_named(tmp_path: Path, train: Train, arguments: list[str], message: str) -> None:
    done = train(*arguments)
    assert done.code == 2, done.err
    assert message in done.err
    assert "Traceback" not in done.err
    if (tmp_path / "turnwise.db").exists():
        assert sizes(tmp_path)["run"] == 0


def test_a_database_of_a_newer_turnwise_is_refused(tmp_path: Path, train: Train) -> None:
    open_database(url(tmp_path), create=True).close()
    connection = sqlite3.connect(tmp_path / "turnwise.db")
    with connection:
        connection.execute("UPDATE alembic_version SET version_num = '9000'")
    connection.close()
    done = train()
    assert done.code == 2
    assert "revision 9000" in done.err
    assert "install a newer turnwise" in done.err
    assert "Traceback" not in done.err
