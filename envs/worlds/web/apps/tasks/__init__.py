"""Task templates: functions that draw a goal, a solution, near misses and the expected state from a seeded world.

``template`` defines what a task is, and the acts of solutions.
``TEMPLATES`` are all by site and name; ``APP_SPLITS`` hold out instances, templates or a site.

To add a template: a function with ``@registry.template(kind)`` in the module of its app. On the real server, its
solution must succeed and its near misses must fail: ``tests/envs/worlds/web/apps/test_templates.py``.
"""

from .....splits import TemplateSplits
from ....computer.templates import catalog, drawn
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
