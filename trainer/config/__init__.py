"""The configuration of a run: its TOML schema, how a file is loaded, and the messages about its errors.

Invariant: importing it imports no torch, ray or vllm, and a configuration is checked whole before anything starts.

To add a key, add a field with a docstring to its section in ``sections.py``, and place it in
``schema.MATHEMATICS`` if it changes what a run computes.
"""
