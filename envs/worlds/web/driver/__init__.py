"""The browser driver: runs inside the sandbox, under the Python and Playwright of the image ``web``.

The image contains the folder, so it imports the standard library, Playwright and its own modules, and nothing else of
turnwise. ``server`` answers one request at a time on a unix socket; ``browser`` owns the contexts of episodes,
``recycling`` empties one for the next episode, and ``chromium`` owns the processes, which the ``launcher`` starts under
another user and to which Playwright passes its pipe. ``protocol`` shares the pipe with Playwright: frequent commands
bypass Playwright. ``tabs`` tracks one episode's tabs; ``act`` executes actions on elements that ``elements`` finds;
``settle`` waits for their effects; ``observe`` reports the page; ``blame`` decides who made a request late.

Invariant: whatever a page does (an endless script, a storm of dialogs, a crash), a request ends within its deadline, if
necessary with a new browser.

To add an action: a function in ``act.VERBS``, and the verb in ``envs/worlds/web/actions.py``.
"""
