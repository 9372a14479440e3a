"""Texts as they are printed: characters that act on a screen are replaced by visible ones.

Such are a control character, a mark that reorders text, half of a surrogate pair, and a character without a shape, such
as a tag: a model reads text in tags that no person sees.
"""

import re
import unicodedata
from typing import Any

from markupsafe import Markup

_ACTING = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u00ad\u061c\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb"
    "\ud800-\udfff\U0001d173-\U0001d17a\U000e0000-\U000e01ef]"
)
MISSING = "–"


def visible(value: Any) -> Any:
    """Return a value as it is printed: a text without characters that act on the screen, a dash for None."""
    if value is None:
        return MISSING
    if isinstance(value, Markup):
        return value
    text = str(value).replace("\r\n", "\n")
    return text.translate(_SIGNS) if _ACTING.search(text) else text


class _Signs(dict[int, str]):
    """By code, each character as it is printed: a text may have millions that act."""

    def __missing__(self, code: int) -> str:
        char = sign = chr(code)
        if _ACTING.match(char):
            sign = chr(0x2400 + code) if code < 0x20 else f"⟨{unicodedata.name(char, f'U+{code:04X}').lower()}⟩"
        self[code] = sign
        return sign


_SIGNS = _Signs()
