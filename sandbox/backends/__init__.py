"""Start and stop sandboxes: one file per container technology."""
