"""``turnwise/Desktop-v0``: task templates on real applications, and the splits that hold some of them out.

``applications/`` holds the templates; ``template`` defines what one is, and the actions of solutions;
``expected`` compares the end state of the desktop with the expected one, and ``env`` is the environment. ``TEMPLATES``
are all by group and name; ``DESKTOP_SPLITS`` hold out instances, templates or an application.

Invariant: the expected end state never enters the sandbox, and covers everything that a task could change.

To add a template: see ``applications``. On a real desktop, its solution must succeed and its near misses must fail;
``tests/envs/worlds/desktop/tasks/test_templates.py`` verifies it.
"""

from ....splits import TemplateSplits
from ...computer.templates import catalog, drawn
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
