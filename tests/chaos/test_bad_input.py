"""Wrong input to ``train`` ends it at once: exit 2, one message that says what to do, and nothing begun."""

import sqlite3
import subprocess
from pathlib import Path

import pytest
from turnwise.store.database import open_database
from turnwise.tests.chaos.harness import CONFIG, PROGRAM, sizes, url

pytestmark = pytest.mark.slow


def train(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [PROGRAM, "train", *arguments, "--store", url(folder)]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=90, check=False)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--set", 'environments.0.id="turnwise/Sit-v0"'], "did you mean 'turnwise/TextSite-v0'?"),
        (["--set", 'environments.0.id="no_such_module:Id-v0"'], "cannot import 'no_such_module'"),
        (["--set", "rollout.max_stalenes=1"], "max_staleness"),
        (["--set", 'loss.name="decoupled_pp"'], "decoupled_ppo"),
        (["--set", 'model.path="nowhere"'], "nowhere"),
    ],
)
def test_a_misspelled_input_is_named(tmp_path: Path, arguments: list[str], message: str) -> None:
    done = train(tmp_path, str(CONFIG), *arguments)
    assert done.returncode == 2, done.stderr
    assert message in done.stderr
    assert "Traceback" not in done.stderr
    if (tmp_path / "turnwise.db").exists():
        assert sizes(tmp_path)["run"] == 0


def test_a_database_of_a_newer_turnwise_is_refused(tmp_path: Path) -> None:
    open_database(url(tmp_path), create=True).close()
    connection = sqlite3.connect(tmp_path / "turnwise.db")
    with connection:
        connection.execute("UPDATE alembic_version SET version_num = '9000'")
    connection.close()
    done = train(tmp_path, str(CONFIG))
    assert done.returncode == 2
    assert "revision 9000" in done.stderr
    assert "install a newer turnwise" in done.stderr
    assert "Traceback" not in done.stderr
