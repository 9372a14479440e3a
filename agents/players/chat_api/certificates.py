"""The certificates of authorities that the environment names for connections, as ``httpx`` reads them."""

import os
import ssl
from pathlib import Path


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
