"""Mistakes of a person at the command line: each is refused in one line with its cause and the remedy."""

import shlex
from contextlib import closing
from pathlib import Path

import pytest
from turnwise.store import operations
from turnwise.store.database import open_database

from .conftest import ENV, Turnwise

CONFIG = f'name = "small"\npreset = "tiny"\nmax_steps = 1\n[[environments]]\nid = "{ENV}"\n'
EVAL = f"eval --env {ENV}"
CHECK = f"envs check {ENV}"
SCORE = "runs score demo --rewards"
MISTAKES = [
    # the words of the command line
    ("trainn", "No such command 'trainn'. Did you mean 'train'?; see `turnwise --help`"),
    ("runs shw", "No such command 'shw'. Did you mean 'show'?; see `turnwise runs --help`"),
    ("train", "Missing argument 'CONFIG.toml'; see `turnwise train --help`"),
    ("trajectories export", "Missing option '--out'; see `turnwise trajectories export --help`"),
    ("train --stor x", "No such option: --stor (Possible options: "),
    ("train c.toml --set", "Option '--set' requires an argument"),
    ("runs list --json=1", "Option '--json' does not take a value"),
    (f"{EVAL} --tasks many", "Invalid value for '--tasks': Input should be a valid integer"),
    (f"{EVAL} --tasks 0", "Invalid value for '--tasks': Input should be greater than or equal to 1"),
    (f"{EVAL} --split tset", "'tset' is not one of 'train', 'test'; see `turnwise eval --help`"),
    (f"{EVAL} --temperature nan", "Invalid value for '--temperature': "),
    ("runs show a b", "Got unexpected extra argument(s) (b); see `turnwise runs show --help`"),
    ("runs list --status runing", "'runing' is not one of 'running', 'interrupted', 'finished', 'failed', 'stopped'"),
    ("runs show 'a\x1b[31mb' '\x1b]0;owned\x07'", r"Got unexpected extra argument(s) (\x1b]0;owned\x07)"),
    # the configuration
    ("train missing.toml", "the configuration `missing.toml` does not exist"),
    ("train broken.toml", "the configuration `broken.toml` is not valid TOML: Invalid value (at end of document)"),
    ("train empty.toml", "`empty.toml`: `name`: is missing; `environments`: is missing"),
    ("train folder", "the configuration `folder` cannot be read: Is a directory"),
    ("train c.toml --set rollout.max_stalenes=1", "unknown key (did you mean 'max_staleness'?)"),
    ("train c.toml --set loss.clip_ratio_lo=0.1", "`loss.clip_ratio_lo`: unknown key (did you mean 'clip_ratio_low'?)"),
    ("train c.toml --set max_steps", "`--set max_steps`: expected key=value"),
    ("train c.toml --set max_steps=0", "`max_steps`: must be at least 1, got 0"),
    ("train c.toml --set max_steps=many", "`max_steps`: must be an integer, got 'many'"),
    ("train c.toml --set preset=tinny", "`preset`: there is no preset 'tinny' (did you mean 'tiny'?)"),
    ("train c.toml --set loss.name=decoupled_pp", "(did you mean 'decoupled_ppo'?)"),
    (
        "train c.toml --set environments.0.id=turnwise/TextSit-v0",
        f"(did you mean '{ENV}'?); `turnwise envs list` shows all",
    ),
    ("train c.toml --set environments.0.id=no_such:Id-v0", "cannot import 'no_such': No module named 'no_such'; for a"),
    ("train c.toml --set sandboxes.backend=lokal", "no sandbox backend is called `lokal` (did you mean 'local'?)"),
    ("train c.toml --set offline.rewards=go", "`offline.rewards` needs `offline.run`, the run of the reward set"),
    ("train c.toml --set rollout.max_thought_tokens=99", "it must be less than `horizon.max_tokens_per_turn` 4"),
    ("train c.toml --set learner.weight_transport=ipc", "set `learner.backend` to `local`, `learner.device` to `cuda`"),
    ("train c.toml --name 'a b'", "`name`: must match the pattern"),
    # runs
    ("runs show dem", "no run dem in the store (did you mean 'demo'?); `turnwise runs list` lists all ids"),
    ("runs fork demo@3", "run demo has no checkpoint: name another run; `turnwise runs list` lists them"),
    (f"{SCORE} 'x y' --reward turn_penalty", "--rewards x y: use up to 80 letters, digits, `.`, `_` and `-`"),
    (f"{SCORE} x --reward turn_penalt", "`rewards` has no component 'turn_penalt' (did you mean 'turn_penalty'?)"),
    (
        f"{SCORE} x --reward turn_penalty --option perturn=1",
        "`--option perturn`: unknown key (did you mean 'per_turn'?)",
    ),
    (f"{SCORE} x --reward absent:f", "for a file in the working directory, run `PYTHONPATH=. turnwise …`"),
    ("runs logs demo", "run `demo` has no log files in "),
    # trajectories
    (
        "trajectories show t9",
        "no trajectory t9 in the store (did you mean 't0'?); `turnwise trajectories list` lists all",
    ),
    ("trajectories show t0 --rewards go", "run demo has no reward set `go`; it has none: `turnwise runs score demo"),
    ("trajectories list --sort nam", "cannot sort by 'nam'; there are created_at, reward, n_steps"),
    ("trajectories list --rewards go", "`--rewards` needs `--run`: a reward set belongs to one run"),
    ("trajectories search ''", "the search `` needs a word that occurs in the text"),
    ("trajectories replay", "name trajectories by their ids, or a run: turnwise trajectories replay --run NAME"),
    ("trajectories branch t0 --at 99", "trajectory t0 cannot be branched at step 99: 1 of its steps can be executed"),
    (
        "trajectories export --out x t0 --run demo",
        "name trajectories by their ids, or select them by filters, but not both",
    ),
    (
        "trajectories export --out x --env none/None-v0",
        "nothing was written: list them by `turnwise trajectories list`",
    ),
    ("trajectories export --out notes.txt t0", "exists: name another path with `--out`, or add `--overwrite`"),
    ("trajectories import notes.txt", "`notes.txt` is neither `.parquet`, `.json` nor `.jsonl`"),
    ("trajectories import m.jsonl", "is not ATIF: `agent`: is missing; an import reads ATIF, and the Parquet that"),
    (
        "trajectories import m.jsonl --max-images 4",
        "`--max-images` is for episodes that the import encodes: add `--tok",
    ),
    ("trajectories import folder", "the folder `folder` has no `.json` file"),
    # environments, policies, models, sandboxes, the store
    (f"{CHECK} --option familly=find", f"{ENV} has no option 'familly' (did you mean 'family'?)"),
    (f"{CHECK} --option family=fnd", "unknown `family` 'fnd' of `turnwise/TextSite-v0`; choose from mix, find, login"),
    (f"{CHECK} --option find", "--option find: expected key=value"),
    (
        f"{CHECK} --sandbox backnd=local",
        "there is no such setting (did you mean 'backend'?); the settings are backend,",
    ),
    (
        "envs new 1bad",
        "'1bad' is not a valid package name; use letters, digits, dashes and underscores, a letter first",
    ),
    (f"{EVAL} --policy nowhere", "neither random, oracle, human, a run of this store, a folder with a model"),
    (f"{EVAL} --policy human --json", "`--policy human` reads the terminal and prints no JSON; remove `--json`"),
    (f"{EVAL} --policy human --name x --turns 3", "plays here and stores nothing; remove `--name` and `--turns`"),
    ("eval c.toml --option pages=1", "`--option pages=1` goes to the environments of `--env`: write it below "),
    (f"{EVAL} --api-key-env KEY", "`--api-key-env KEY` is for the URL of a server, and `--policy` is `random`"),
    (f"model new m --env {ENV} --vision --arch llama", "a model with `--vision` is a Qwen3-VL"),
    (f"model new m --env {ENV} --patch 28", "`--patch 28` is for a model that reads images: add `--vision`, or remove"),
    (f"model new m --env {ENV} --arch gpt", "unknown architecture 'gpt': set `--arch` to qwen3 or llama"),
    ("model merge nowhere merged", "there is neither a folder `nowhere` nor a run of this name in the store"),
    ("sandbox check --backend dokcer", "no sandbox backend is called `dokcer` (did you mean 'docker'?)"),
    ("sandbox build gui", "unknown image 'gui'; the images are code, desktop, web"),
    ("db stats --store foo://x", "a store is SQLite or PostgreSQL, not foo"),
    ("db gc --max-size 3XB", "is not a size; write a number and a unit, such as `500MiB` or `1GiB`"),
    ("db check --store sqlite:///no.db", "a run creates it, or `turnwise db upgrade --store sqlite:///no.db`"),
]


@pytest.mark.parametrize(("words", "line"), MISTAKES, ids=[words for words, _ in MISTAKES])
def test_a_mistake_is_one_line_with_its_cause_and_the_remedy(
    turnwise: Turnwise, store: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: str, line: str
) -> None:
    monkeypatch.setenv("TURNWISE_STORE", store)
    monkeypatch.chdir(tmp_path)
    texts = {
        "c.toml": CONFIG,
        "broken.toml": "name = ",
        "empty.toml": "",
        "notes.txt": "x",
        "m.jsonl": '{"messages": []}',
    }
    for name, text in texts.items():
        (tmp_path / name).write_text(text)
    (tmp_path / "folder").mkdir()
    ended = turnwise(*shlex.split(words))
    assert (ended.code, ended.out, ended.err.count("\n")) == (2, "", 1), ended.err
    assert ended.err.startswith("turnwise: ")
    assert line in ended.err


def test_the_name_of_a_finished_run_is_refused(turnwise: Turnwise, store: str, tmp_path: Path) -> None:
    with closing(open_database(store, create=True)) as database, database.transaction() as tx:
        operations.finish_run(tx, run="demo", status="finished")
    (tmp_path / "c.toml").write_text(CONFIG)
    ended = turnwise("train", str(tmp_path / "c.toml"), "--name", "demo", "--set", "seed=2", "--store", store)
    assert (ended.code, ended.out) == (2, "")
    remedy = "raise `max_steps` or `max_seconds` to continue it, choose another `--name`, or begin from its weights"
    assert ended.err == f"turnwise: run `demo` is finished: {remedy}: `turnwise runs fork demo --name NEW`\n"
