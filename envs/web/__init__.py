"""Web environments: Chromium under Playwright in a sandbox without a network, beside the task's own web server.

``actions`` reads what the agent wrote, ``tree`` writes what it sees, ``browser`` is the way to the browser in the
sandbox (``driver`` runs there), ``env`` the episode. What is played: ``miniwob``, ``apps``, and a site of one's own.
"""
