"""Desktop environments: real applications under Xvfb in a sandbox without a network.

``actions`` parses the agent's text, OSWorld's dialect by ``pyautogui_adapter``; ``env`` is the episode; ``task`` holds
its values; ``desktop_session`` is the client of the desktop, which ``driver/`` operates inside the sandbox.
Environments: ``tasks/`` (templates over all applications), and ``env.DesktopEnv`` for yours.

Invariant: every action ends within its timeout, and damage that the agent's applications do is never a failure of the
environment.

To add a task: subclass ``env.DesktopEnv``. To add an application: install it in
``image/Dockerfile``.
"""
