"""The values of actions and observations beyond NumPy's, each with its Gymnasium space: free text, and PNG files.

Invariant: a space contains exactly the values that an environment may return, so Gymnasium's checker applies.

To add a kind of observation: its type and its space in one file, and its normal form in ``runner.observations``.
"""

from .free_text import FreeText
from .png import Png, PngSpace

__all__ = ["FreeText", "Png", "PngSpace"]
