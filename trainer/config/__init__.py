"""The TOML schema of a run, and how it is loaded."""
