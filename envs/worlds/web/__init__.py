"""Web environments: Chromium under Playwright in a sandbox without a network, next to the web server of the task.

``actions`` parses the agent's text; ``env`` is the episode; ``browser_session`` is the client of the browser, which
``driver/`` operates inside the sandbox; it runs the task's server there, too. Environments: ``miniwob/``,
``apps/`` (a shop, an issue tracker, a wiki with a forum), ``envs.tiny.web`` for tiny policies, and ``custom_site`` for
yours.

Invariant: every action ends within its timeout, and damage that the agent's page does is never a failure of the
environment.

To add a site: subclass ``custom_site.CustomSiteEnv``. To add another kind of episode: subclass ``env.BrowserEnv`` and
implement ``start_episode`` and ``evaluate``.
"""
