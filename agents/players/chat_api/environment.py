"""The proxy and the certificates of a connection, as the environment variables name them and ``httpx`` reads them."""

import os
import ssl
from ipaddress import ip_address
from pathlib import Path
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


def certificate_problem(scheme: str) -> str:
    """Return why the named certificates cannot be used, and the remedy; empty if none are named or they can.

    ``SSL_CERT_FILE`` comes first; ``SSL_CERT_DIR`` is read without it. ``httpx`` loads the file for a server of any
    scheme, and looks for certificates in the folders only when it connects with TLS.
    """
    for name in ("SSL_CERT_FILE", "SSL_CERT_DIR"):
        if value := os.environ.get(name):
            if name == "SSL_CERT_FILE":
                reason = _file_problem(value)
            else:
                reason = _folder_problem(value) if scheme == "https" else ""
            return f"`{value}` of `{name}` {reason}. Correct the variable, or unset it" if reason else ""
    return ""


def _file_problem(value: str) -> str:
    if not Path(value).is_file():
        return "is no file"
    try:
        ssl.create_default_context(cafile=value)
    except (OSError, ValueError) as error:  # `ssl.SSLError` is an `OSError`
        return f"cannot be read as certificates: {error}"
    return ""


def _folder_problem(value: str) -> str:
    return "" if any(Path(part).is_dir() for part in value.split(os.pathsep)) else "is no folder"
