"""State of the process that turnwise shares with the code of environments: signals, timers, children, stdout, paths.

Invariant: turnwise neither reads nor writes shared state after environments run; each file holds what it needs of one
kind of state from the start of the command. Standard library only: commands import it before anything that takes time.

To isolate another kind of state, add a file here, and the kind to ``envs.authoring.process_state``, which finds
environments that change it.
"""
