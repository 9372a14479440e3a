"""Replace secrets by ``***`` in a URL, a connection string, or text that is shown, stored or exported."""

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


_MASK = "***"
_LABEL = (
    r"(?:passw(?:or)?d|passphrase|pwd|secret|token|api[_-]?key|access[_-]?key|private[_-]?key|auth[_-]?key|credential)"
)
_KEYS = re.compile(
    r"-----BEGIN [A-Z ]*PRIVATE KEY-----.*?(?:-----END [A-Z ]*PRIVATE KEY-----|\Z)"
    r"|\bsk-(?=[A-Za-z_-]{0,60}[0-9])[A-Za-z0-9_-]{16,}"
    r"|\bgh[opsur]_[A-Za-z0-9]{20,}|\bgithub_pat_[A-Za-z0-9_]{20,}|\bglpat-[A-Za-z0-9_-]{16,}"
    r"|\b(?:AKIA|ASIA)[A-Z0-9]{16}\b|\bAIza[A-Za-z0-9_-]{30,}"
    r"|\bhf_[A-Za-z0-9]{20,}|\bxox[abeoprs]-[A-Za-z0-9-]{10,}|\b[rs]k_(?:live|test)_[A-Za-z0-9]{16,}"
    r"|\bnpm_[A-Za-z0-9]{30,}|\bpypi-[A-Za-z0-9_-]{40,}|\bya29\.[A-Za-z0-9._-]{20,}"
    r"|\beyJ[A-Za-z0-9_-]{8,512}\.[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]*",
    re.DOTALL,
)
"""Keys and tokens by the prefixes of their issuers, JSON web tokens, and private keys in PEM."""
_URL_PASSWORD = re.compile(
    r"(\b[a-z][a-z0-9+.-]{0,20}://[^\s/?#:@\"'<>]*:)(?!\*\*\*@)[^\s/?#\"'<>]+(?=@)", re.IGNORECASE
)
_URL_USER = re.compile(r"(\bhttps?://)(?!\*\*\*@)[^\s/?#:@\"'<>]+(?=@)", re.IGNORECASE)
_URL_PARAMETER = re.compile(rf"([?&][\w.-]{{0,40}}{_NAME}=)(?!\*\*\*)[^\s&#\"'<>]+", re.IGNORECASE)
_AUTHORIZATION = re.compile(r"(\b(?:bearer|basic)\s+)(?=[^\s\"']*\d)[A-Za-z0-9._~+/=-]{16,}", re.IGNORECASE)
_ASSIGNMENT = re.compile(
    rf"({_LABEL}\b[\"']?\s*[:=]\s*[\"']?)(?=[^\s\"',;&]{{0,99}}\d)(?=[^\s\"',;&]{{0,99}}[A-Za-z])[^\s\"',;&]{{8,}}",
    re.IGNORECASE,
)
"""A name such as ``api_key``, and a value of at least 8 characters with a letter and a digit."""
_KEY_MARKS = (
    *(
        "PRIVATE KEY-----",
        "sk-",
        "ghp_",
        "gho_",
        "ghs_",
        "ghu_",
        "ghr_",
        "github_pat_",
        "glpat-",
        "AKIA",
        "ASIA",
        "AIza",
        "hf_",
        "xox",
        "k_live_",
        "k_test_",
    ),
    *("npm_", "pypi-", "ya29.", "eyJ"),
)
"""A text without any of these has no key of ``_KEYS``: a search for them is a hundred times as fast."""
_FREE_TEXT = (
    (("://",), _URL_PASSWORD),
    (("://",), _URL_USER),
    (("?", "&"), _URL_PARAMETER),
    (("bearer", "basic"), _AUTHORIZATION),
    (("pass", "pwd", "secret", "token", "key", "auth", "credential"), _ASSIGNMENT),
)
"""The other patterns, each with the texts of which one is in every match, in small letters."""


def scrubbed(text: str) -> str:
    """Return free text with every value that looks like a key, a token or a password in a URL replaced by ``***``.

    Prose and source code stay as they are; ``without_secrets`` is for a text that is a URL. Scrubbed text does not
    change when it is scrubbed again.
    """
    if any(mark in text for mark in _KEY_MARKS):
        text = _KEYS.sub(_MASK, text)
    lowered = text.lower()
    for marks, pattern in _FREE_TEXT:
        if any(mark in lowered for mark in marks):
            text = pattern.sub(rf"\1{_MASK}", text)
    return text
