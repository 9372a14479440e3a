"""All templates by site and name, the task of a seed, and the splits: held out by instance, by template or by site."""

from ....computer.templates import catalog, drawn
from ....splits import TemplateSplits
from . import shop, shop_account, tracker, tracker_work, wiki, wiki_forum
from .template import AppTask, AppTemplate

MODULES = (shop, shop_account, tracker, tracker_work, wiki, wiki_forum)
TEMPLATES: dict[str, AppTemplate] = catalog(module.registry for module in MODULES)
SITES = tuple(dict.fromkeys(template.group for template in TEMPLATES.values()))
APP_SPLITS = TemplateSplits({name: (template.group,) for name, template in TEMPLATES.items()}, "site")
HELD_OUT_SITE = "wiki"


def draw(template: str, seed: int) -> AppTask:
    """Return the task of a template, by its ``site/name``, for a seed. Raises ValueError for an unknown template."""
    return drawn(TEMPLATES, template, seed)
