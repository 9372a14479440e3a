"""The hub is looked for until it is found, each time for at most two seconds."""

import socket
from collections.abc import Iterator
from time import monotonic

import pytest
from huggingface_hub import constants
from turnwise.agents import hub


@pytest.fixture(autouse=True)
def no_proxy(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    for name in ("http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
    hub._reached.clear()
    yield
    hub._reached.clear()


def test_a_hub_that_accepts_connections_is_reachable(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        url = f"http://127.0.0.1:{server.getsockname()[1]}"
        monkeypatch.setattr(constants, "ENDPOINT", url)
        assert hub.is_reachable()
        monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
        assert not hub.is_reachable()


@pytest.mark.parametrize("variable", ["http_proxy", "all_proxy", "ALL_PROXY"])
def test_a_proxy_stands_for_the_hub(monkeypatch: pytest.MonkeyPatch, variable: str) -> None:
    monkeypatch.setattr(constants, "ENDPOINT", "http://hub.invalid")
    with socket.create_server(("127.0.0.1", 0)) as server:
        monkeypatch.setenv(variable, f"http://127.0.0.1:{server.getsockname()[1]}")
        assert hub.is_reachable()


def test_a_hub_that_was_not_reached_is_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    monkeypatch.setattr(constants, "ENDPOINT", f"http://127.0.0.1:{port}")
    assert not hub.is_reachable()
    with socket.create_server(("127.0.0.1", port)):
        assert hub.is_reachable()
    assert hub.is_reachable()


@pytest.mark.parametrize("endpoint", ["http://127.0.0.1:9", "https://hub.invalid"])
def test_a_hub_that_is_not_reached_is_found_out_in_two_seconds(monkeypatch: pytest.MonkeyPatch, endpoint: str) -> None:
    monkeypatch.setattr(constants, "ENDPOINT", endpoint)
    began = monotonic()
    assert not hub.is_reachable()
    assert monotonic() - began < 2
