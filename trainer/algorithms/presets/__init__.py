"""Named bundles of configuration: ``preset = "grpo"`` in a run's file, then overrides.

A preset is a TOML file with any keys of a run's configuration. The run's own keys take precedence, key by key inside
tables; a list, or a component with another ``name``, replaces the preset's as a whole.

To add a preset, add a TOML file; its file name is its name.
"""
