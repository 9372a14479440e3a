"""All templates, by site and name; and the task of a seed."""

from . import templates_shop_account, templates_tracker_work, templates_wiki_forum
from .template import SiteTask, Template
from .templates_shop import book as shop
from .templates_tracker import book as tracker
from .templates_wiki import book as wiki

__all__ = ["SITES", "TEMPLATES", "draw", "templates_shop_account", "templates_tracker_work", "templates_wiki_forum"]

TEMPLATES: dict[str, Template] = {
    f"{book.site}/{name}": template for book in (shop, tracker, wiki) for name, template in book.templates.items()
}
"""By ``site/name``."""
SITES = tuple(dict.fromkeys(template.site for template in TEMPLATES.values()))


def draw(template: str, seed: int) -> SiteTask:
    """The task of a template, by its ``site/name``, and a seed.

    Raises:
        ValueError: no such template.
    """
    if template not in TEMPLATES:
        raise ValueError(f"unknown template {template!r} of the sites; choose from {', '.join(TEMPLATES)}")
    return TEMPLATES[template].draw(seed)
