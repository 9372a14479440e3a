"""Worlds: the shipped environments, all content. They and their images register by entry points, as a stranger's do.

``text`` and ``code``, ``web``, ``desktop`` are for language models, ``tiny`` for policies trained from scratch, and
``semi_online`` plays stored episodes; ``computer`` is what ``web`` and ``desktop`` have in common. Nothing outside this
folder imports from it. A world imports the modules that docs/environments.md lists, which are the public API of worlds.

To ship a world, add a folder here whose environment derives from ``episode.EpisodeEnv``, and its id to
``ENVIRONMENTS``.
"""

import gymnasium

from .web.miniwob import TASKS

ENVIRONMENTS = {
    "turnwise/TextSite-v0": "tiny.text:TextSiteEnv",
    "turnwise/GuessNumber-v0": "text.guess_number:GuessNumberEnv",
    "turnwise/Calculator-v0": "text.calculator:CalculatorEnv",
    "turnwise/TableLookup-v0": "text.table_lookup:TableLookupEnv",
    "turnwise/TwentyQuestions-v0": "text.twenty_questions:TwentyQuestionsEnv",
    "turnwise/Code-v0": "code.env:CodeEnv",
    "turnwise/TinyCode-v0": "tiny.code:TinyCodeEnv",
    "turnwise/WebApps-v0": "web.apps.env:WebAppsEnv",
    "turnwise/TinyWeb-v0": "tiny.web:TinyWebEnv",
    "turnwise/TinyPixelsWeb-v0": "tiny.pixels_web:TinyPixelsWebEnv",
    "turnwise/Desktop-v0": "desktop.tasks.env:DesktopTasksEnv",
    "turnwise/TinyDesktop-v0": "tiny.desktop:TinyDesktopEnv",
    "turnwise/TinyPixelsDesktop-v0": "tiny.pixels_desktop:TinyPixelsDesktopEnv",
    "turnwise/SemiOnline-v0": "semi_online.env:SemiOnlineEnv",
}
"""By id, the module in this folder and its class; the module is imported when an environment is made."""


def register() -> None:
    """Register the environments, and the tasks of MiniWoB++, with Gymnasium."""
    for env_id, entry in ENVIRONMENTS.items():
        gymnasium.register(env_id, f"{__name__}.{entry}", order_enforce=False, disable_env_checker=True)
    for task in TASKS:
        entry = f"{__name__}.web.miniwob.env:MiniWoBEnv"
        gymnasium.register(
            f"turnwise/MiniWoB-{task}-v0", entry, kwargs={"task": task}, order_enforce=False, disable_env_checker=True
        )
