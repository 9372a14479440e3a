"""Sandboxes (floor 1): isolated machines for environments to run in. Nothing here knows of reinforcement learning."""
