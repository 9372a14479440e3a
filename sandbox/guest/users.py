"""Users of one sandbox."""

USERS = 4
"""Users of a sandbox whose guest agent is root: numbers 0 to 3, whose uids follow one another."""
