"""The splits of the apps' tasks: held out by instance, by template or by site."""

from ...splits import TemplateSplits
from .tasks.catalog import TEMPLATES

APP_SPLITS = TemplateSplits({name: (template.site,) for name, template in TEMPLATES.items()}, "site")
HELD_OUT_SITE = "wiki"
