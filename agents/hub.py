"""Whether the Hugging Face hub can be reached, found in two seconds: its client retries for half a minute."""

import os
import socket
from contextlib import suppress
from functools import cache
from threading import Thread
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

CONNECT_TIMEOUT_S = 1.5
PORTS = {"http": 80, "https": 443}


def is_reachable() -> bool:
    """Return whether the hub, or the proxy to it, accepts a connection; False in the hub's offline mode."""
    from huggingface_hub import constants

    return not constants.HF_HUB_OFFLINE and _accepts(constants.ENDPOINT)


@cache
def _accepts(endpoint: str) -> bool:
    """Return whether the host of a URL accepts a connection within ``CONNECT_TIMEOUT_S``."""
    hub = urlsplit(endpoint)
    proxy = None if proxy_bypass(hub.hostname or "") else getproxies().get(hub.scheme)
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
