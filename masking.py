"""Replace passwords and other secrets by ``***`` in a URL, a connection string or a path that is shown or stored."""

import re

_NAME = r"(?:(?:passw|pwd|secret|token)[\w.-]*|pass|passphrase|sig|signature|key)"
"""The end of a parameter's name whose value is secret."""
_PARAMETER_WITH_AT = re.compile(rf":(?!//)[^@]*[?&][^=&@]*{_NAME}=[^&@]*@[^&]*", re.IGNORECASE)
"""The rest of a URL whose first ``@`` is either in a secret parameter or after a password with a ``?``."""
_PASSWORD = re.compile(r":(?!//)[^@]*@(?:[^@/?]*@)*")
"""From the colon after a user to the last ``@`` before the host."""
_HTTP_USER = re.compile(r"(https?://)[^/?#@:]*@", re.IGNORECASE)
"""A user without a password: over HTTP, it often is a token."""
_QUERY_PARAMETER = re.compile(rf"([?&][^=&]*{_NAME}=)[^&]*", re.IGNORECASE)
_PARAMETER = re.compile(rf"({_NAME}\s*=\s*)(?:'(?:[^'\\]|\\.)*'|[^&\s]*)", re.IGNORECASE)


def without_secrets(text: str) -> str:
    """Return ``text`` with every password and secret replaced by ``***``; it need not be a valid URL."""
    text = _PARAMETER_WITH_AT.sub(":***", text)
    text = _HTTP_USER.sub(r"\1***@", _PASSWORD.sub(":***@", text))
    return _PARAMETER.sub(r"\1***", _QUERY_PARAMETER.sub(r"\1***", text))
