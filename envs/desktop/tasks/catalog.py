"""All templates by group and name, the task of a seed, and the splits: by instance, by template or by application."""

from ...computer.templates import catalog, drawn
from ...splits import TemplateSplits
from ..task import DesktopTask
from .applications import calculator, editor, files, several, spreadsheet, terminal, viewer
from .template import DesktopTemplate

MODULES = (editor, files, spreadsheet, calculator, terminal, viewer, several)
TEMPLATES: dict[str, DesktopTemplate] = catalog(module.registry for module in MODULES)
GROUPS = tuple(dict.fromkeys(template.group for template in TEMPLATES.values()))
"""The applications, and ``several``."""
APPLICATIONS = tuple(dict.fromkeys(use for template in TEMPLATES.values() for use in template.uses))
DESKTOP_SPLITS = TemplateSplits({name: template.uses for name, template in TEMPLATES.items()}, "application")
HELD_OUT_APPLICATION = "spreadsheet"
VISUAL = frozenset(name for name, template in TEMPLATES.items() if template.visual)
"""The templates that need a screenshot."""


def draw(template: str, seed: int) -> DesktopTask:
    """Return the task of a template, by its ``group/name``, for a seed. Raises ValueError for an unknown template."""
    return drawn(TEMPLATES, template, seed)
