"""Web environments: Chromium under Playwright in a sandbox without a network, next to the web server of the task.

``actions`` parses what the agent writes; ``env`` is the episode; ``browser_session`` is the way to the browser, which
``driver/`` operates inside the sandbox; ``site_server`` runs the task's server there. Environments: ``miniwob/``,
``apps/`` (a shop, an issue tracker, a wiki with a forum), ``tiny/`` for tiny policies, and ``custom_site`` for yours.

Invariant: whatever a page does, an action ends within its deadline; the agent's page never fails the world.

To add a site: subclass ``custom_site.CustomSiteEnv``. To add another kind of episode: subclass ``env.BrowserEnv`` and
implement ``start_episode`` and ``evaluate``.
"""
