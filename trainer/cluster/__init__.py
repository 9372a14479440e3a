"""Ray: runtime, the actors of a run, watchdog."""
