"""The base of every error that turnwise raises on purpose.

The message of a ``TurnwiseError`` is for a person: what failed, why, and what to do about it. The console prints it
without a traceback and exits 2. Any other exception that escapes is a bug: the console prints one line that names the
file with its traceback, and exits 3.

Each part defines its errors in its own ``errors`` module; they form one tree::

    TurnwiseError
    ├── EnvError            envs.errors: an environment failed, broke its contract, or overran its timeout
    ├── SandboxError        sandbox.errors: a sandbox or its backend failed
    ├── StoreError          store.errors: the store refused, lacks or cannot reach something
    ├── ConfigError         trainer: a key of the configuration is unknown or has an invalid value
    ├── Refused             trainer: a command cannot start; the message has one line per reason
    └── …                   one class per failure of an engine, a checkpoint, a worker or a command
"""

import difflib
from collections.abc import Sequence


class TurnwiseError(Exception):
    """An error that the user can fix: a misspelled key, an unknown environment, an old database, a full disk."""


def suggestion(word: str, known: Sequence[str]) -> str:
    """Return the end of a message: `` (did you mean X?)``, or the list of known words if none is similar."""
    close = difflib.get_close_matches(word, known, n=1, cutoff=0.5)
    return f" (did you mean {close[0]!r}?)" if close else f" (known: {', '.join(sorted(known)) or 'none'})"
