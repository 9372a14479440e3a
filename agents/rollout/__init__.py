"""Play episodes and groups of episodes."""
