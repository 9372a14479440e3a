"""All templates by group and name, and the task of a seed."""

from ..task import DesktopTask
from .applications import calculator, editor, files, several, spreadsheet, terminal, viewer
from .template import Template, TemplateRegistry

MODULES = (editor, files, spreadsheet, calculator, terminal, viewer, several)
REGISTRIES: tuple[TemplateRegistry, ...] = tuple(module.registry for module in MODULES)
TEMPLATES: dict[str, Template] = {
    f"{registry.group}/{name}": template for registry in REGISTRIES for name, template in registry.templates.items()
}
"""By ``group/name``."""
GROUPS = tuple(registry.group for registry in REGISTRIES)
"""The applications, and ``several``."""
APPLICATIONS = tuple(dict.fromkeys(use for template in TEMPLATES.values() for use in template.uses))


def draw(template: str, seed: int) -> DesktopTask:
    """Return the task of a template, by its ``group/name``, for a seed.

    Raises:
        ValueError: the template is unknown.
    """
    if template not in TEMPLATES:
        raise ValueError(f"unknown template {template!r}; choose from {', '.join(TEMPLATES)}")
    return TEMPLATES[template].draw(seed)
