"""The splits of the desktop tasks: held out by instance, by template or by application."""

from ...splits import TemplateSplits
from .catalog import TEMPLATES

DESKTOP_SPLITS = TemplateSplits({name: template.uses for name, template in TEMPLATES.items()}, "application")
HELD_OUT_APPLICATION = "spreadsheet"
VISUAL = frozenset(name for name, template in TEMPLATES.items() if template.visual)
"""The templates that need a screenshot."""
