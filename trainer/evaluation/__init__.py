"""Success on held-out tasks, inside a run and stand-alone."""
