"""Whether the Hugging Face hub can be reached, found in two seconds: its client retries for half a minute."""

import os
import socket
from contextlib import suppress
from threading import Thread
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

CONNECT_TIMEOUT_S = 1.5
PORTS = {"http": 80, "https": 443, "socks4": 1080, "socks5": 1080, "socks5h": 1080}
_reached: set[str] = set()
"""Endpoints that accepted a connection; one that did not is tried again."""


def is_reachable() -> bool:
    """Return whether the hub, or the proxy to it, accepts a connection; False in the hub's offline mode."""
    from huggingface_hub import constants

    if constants.HF_HUB_OFFLINE:
        return False
    if constants.ENDPOINT not in _reached and _accepts(constants.ENDPOINT):
        _reached.add(constants.ENDPOINT)
    return constants.ENDPOINT in _reached


def _accepts(endpoint: str) -> bool:
    """Return whether the host of a URL accepts a connection within ``CONNECT_TIMEOUT_S``."""
    hub = urlsplit(endpoint)
    proxies = {} if proxy_bypass(hub.hostname or "") else getproxies()
    proxy = proxies.get(hub.scheme) or proxies.get("all")
    url = urlsplit(proxy if proxy and "://" in proxy else f"http://{proxy}") if proxy else hub
    accepted: list[bool] = []

    def connect() -> None:
        with (
            suppress(OSError, ValueError),
            socket.create_connection((url.hostname or "", url.port or PORTS.get(url.scheme, 443)), CONNECT_TIMEOUT_S),
        ):
            accepted.append(True)

    looking = Thread(target=connect, name=f"turnwise-hub-{os.getpid()}", daemon=True)  # a name service may not answer
    looking.start()
    looking.join(CONNECT_TIMEOUT_S)
    return bool(accepted)
