"""The proxy between this process and a server, as the environment variables name it."""

import os
from ipaddress import ip_address
from urllib.request import getproxies_environment, proxy_bypass

from ....masking import without_secrets


def is_loopback(host: str) -> bool:
    """Return whether a host is this machine, which no proxy leads to."""
    name = host.strip("[]").rstrip(".").lower()
    if name == "localhost" or name.endswith(".localhost"):
        return True
    try:
        address = ip_address(name.partition("%")[0])
    except ValueError:
        return False
    address = getattr(address, "ipv4_mapped", None) or address
    return address.is_loopback or address.is_unspecified


def named_proxy(scheme: str, host: str) -> str:
    """Return the proxy for a server and the variable that names it, for a message; empty if there is none."""
    if is_loopback(host) or proxy_bypass(host):
        return ""
    proxies = getproxies_environment()
    kind = scheme if proxies.get(scheme) else "all"
    if not (url := proxies.get(kind)):
        return ""
    names = [name for name in (f"{kind}_proxy", f"{kind.upper()}_PROXY") if os.environ.get(name)]
    return f"the proxy `{without_secrets(url)}` of `{names[0] if names else f'{kind}_proxy'}`"
