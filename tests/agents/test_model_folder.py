"""A model is found by its folder, or by its hub id in the local cache, without a network."""

import os
import socket
import subprocess
import sys
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from threading import Thread
from time import monotonic

import pytest
from huggingface_hub import constants
from turnwise.agents.model_folder import SLOWEST_BYTES_PER_S, is_hub_id, is_reachable, loading_allowance_s, model_folder
from turnwise.errors import TurnwiseError

COMMIT = "5" * 40


@pytest.fixture
def cached(tmp_path: Path) -> Path:
    """``HF_HOME`` with a snapshot of `maker/tiny-1.5b`, laid out as the hub's client does."""
    model = tmp_path / "hub/models--maker--tiny-1.5b"
    snapshot = model / "snapshots" / COMMIT
    snapshot.mkdir(parents=True)
    (model / "refs").mkdir()
    (model / "refs/main").write_text(COMMIT)
    for name in ("config.json", "model.safetensors"):
        (snapshot / name).write_text("{}")
    return tmp_path


def resolve(home: Path, model: str, **environment: str) -> "subprocess.CompletedProcess[str]":
    """Resolve a model in a process of its own: the hub's client reads its variables when it is imported."""
    code = "import sys\nfrom turnwise.agents.model_folder import model_folder\nprint(model_folder(sys.argv[1]))"
    variables = {**os.environ, "HF_HOME": str(home), **environment}
    command = [sys.executable, "-c", code, model]
    return subprocess.run(command, env=variables, capture_output=True, text=True, timeout=60, check=False)


def test_a_hub_id_is_found_in_the_cache_without_a_network(cached: Path) -> None:
    done = resolve(cached, "maker/tiny-1.5b", HF_HUB_OFFLINE="1")
    assert done.stdout.strip().endswith(f"snapshots/{COMMIT}"), done.stderr


def test_a_hub_id_that_the_cache_lacks_is_refused_without_a_network(cached: Path) -> None:
    done = resolve(cached, "maker/other", HF_HUB_OFFLINE="1")
    assert "`model.path`: there is no folder `maker/other`, and the hub id could not be resolved" in done.stderr
    assert "hf download maker/other" in done.stderr


def test_a_hub_that_does_not_answer_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
    with socket.create_server(("127.0.0.1", 0)) as server:
        monkeypatch.setattr(constants, "ENDPOINT", f"http://127.0.0.1:{server.getsockname()[1]}")
        began = monotonic()
        assert not is_reachable("maker/other")
        assert monotonic() - began < 15


def test_a_hub_that_refuses_is_reachable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
    with HTTPServer(("127.0.0.1", 0), BaseHTTPRequestHandler) as server:  # answers 501 to every request
        Thread(target=server.handle_request, daemon=True).start()
        monkeypatch.setattr(constants, "ENDPOINT", f"http://127.0.0.1:{server.server_port}")
        assert is_reachable("maker/other")
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    assert not is_reachable("maker/other")


def test_a_model_without_safetensors_is_refused(cached: Path) -> None:
    next(cached.rglob("model.safetensors")).rename(cached / "pytorch_model.bin")
    done = resolve(cached, "maker/tiny-1.5b", HF_HUB_OFFLINE="1")
    assert "the hub's `maker/tiny-1.5b` has no weights in safetensors" in done.stderr


def test_a_folder_takes_precedence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "maker/tiny").mkdir(parents=True)
    (tmp_path / "maker/tiny/config.json").write_text("{}")
    monkeypatch.chdir(tmp_path)
    assert model_folder("maker/tiny") == tmp_path / "maker/tiny"


@pytest.mark.parametrize("name", ["nowhere", "./a/b", "/a/b", "a/b/c", ".."])
def test_another_name_is_refused(name: str) -> None:
    assert not is_hub_id(name)
    with pytest.raises(TurnwiseError, match="is neither a Hugging Face model folder"):
        model_folder(name, "--policy")


def test_the_allowance_for_a_load_grows_with_the_weights_of_the_model(tmp_path: Path) -> None:
    base, adapter = tmp_path / "base", tmp_path / "adapter"
    base.mkdir()
    adapter.mkdir()
    (base / "config.json").write_text("{}")
    assert loading_allowance_s(base) == 0
    for part in ("model-1.safetensors", "model-2.safetensors"):
        with (base / part).open("wb") as file:
            file.truncate(30 * SLOWEST_BYTES_PER_S)  # a hole: no disk is used
    (adapter / "adapter_config.json").write_text(f'{{"base_model_name_or_path": "{base}"}}')
    assert loading_allowance_s(base) == loading_allowance_s(adapter) == 60
