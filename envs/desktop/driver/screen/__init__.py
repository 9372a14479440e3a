"""The screen of the X server: input by XTEST, windows, and captures through shared memory, encoded as PNG.

Invariant: a picture is what the X server showed at one moment.

To add a key's name: a row in ``keyboard.NAMES``.
"""
