"""The hub is looked for once, for at most two seconds."""

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
    hub._accepts.cache_clear()
    yield
    hub._accepts.cache_clear()


def test_a_hub_that_accepts_connections_is_reachable(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        url = f"http://127.0.0.1:{server.getsockname()[1]}"
        monkeypatch.setattr(constants, "ENDPOINT", url)
        assert hub.is_reachable()
        monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
        assert not hub.is_reachable()


def test_a_proxy_stands_for_the_hub(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(constants, "ENDPOINT", "http://hub.invalid")
    with socket.create_server(("127.0.0.1", 0)) as server:
        monkeypatch.setenv("http_proxy", f"http://127.0.0.1:{server.getsockname()[1]}")
        assert hub.is_reachable()


@pytest.mark.parametrize("endpoint", ["http://127.0.0.1:9", "https://hub.invalid"])
def test_a_hub_that_is_not_reached_is_found_out_in_two_seconds(monkeypatch: pytest.MonkeyPatch, endpoint: str) -> None:
    monkeypatch.setattr(constants, "ENDPOINT", endpoint)
    began = monotonic()
    assert not hub.is_reachable()
    assert monotonic() - began < 2
