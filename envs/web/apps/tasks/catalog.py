"""All templates by site and name, and the task of a seed."""

from . import shop, shop_account, tracker, tracker_work, wiki, wiki_forum
from .template import AppTask, Template, TemplateRegistry

MODULES = (shop, shop_account, tracker, tracker_work, wiki, wiki_forum)
REGISTRIES: tuple[TemplateRegistry, ...] = tuple(dict.fromkeys(module.registry for module in MODULES))
TEMPLATES: dict[str, Template] = {
    f"{registry.site}/{name}": template for registry in REGISTRIES for name, template in registry.templates.items()
}
"""By ``site/name``."""
SITES = tuple(registry.site for registry in REGISTRIES)


def draw(template: str, seed: int) -> AppTask:
    """Return the task of a template, by its ``site/name``, for a seed.

    Raises:
        ValueError: the template is unknown.
    """
    if template not in TEMPLATES:
        raise ValueError(f"unknown template {template!r}; choose from {', '.join(TEMPLATES)}")
    return TEMPLATES[template].draw(seed)
