"""State of the process that turnwise shares with the code of environments: signals of children, stdout, paths.

Invariant: turnwise neither reads nor writes shared state after environments run; each file holds what it needs of one
kind of state from the start of the command. Standard library only: commands import it before anything that takes time.

Environments may not change the rest of the process; ``envs.authoring.process_state`` finds those that do.
"""
