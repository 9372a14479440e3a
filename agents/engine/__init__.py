"""vLLM: one Ray actor per replica, and its client."""
