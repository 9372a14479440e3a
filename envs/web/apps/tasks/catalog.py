"""All templates, by site and name; and the task of a seed."""

from . import shop_account as templates_shop_account
from . import tracker_work as templates_tracker_work
from . import wiki_forum as templates_wiki_forum
from .shop import book as shop
from .template import AppTask, Template
from .tracker import book as tracker
from .wiki import book as wiki

__all__ = ["SITES", "TEMPLATES", "draw", "templates_shop_account", "templates_tracker_work", "templates_wiki_forum"]

TEMPLATES: dict[str, Template] = {
    f"{book.site}/{name}": template for book in (shop, tracker, wiki) for name, template in book.templates.items()
}
"""By ``site/name``."""
SITES = tuple(dict.fromkeys(template.site for template in TEMPLATES.values()))


def draw(template: str, seed: int) -> AppTask:
    """The task of a template, by its ``site/name``, and a seed.

    Raises:
        ValueError: no such template.
    """
    if template not in TEMPLATES:
        raise ValueError(f"unknown template {template!r} of the sites; choose from {', '.join(TEMPLATES)}")
    return TEMPLATES[template].draw(seed)
