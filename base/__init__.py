"""What every part stands on: files that a person named, logs, secrets, pictures, rates, and the state of a process.

Invariant: nothing here knows a part. To add a module here, it needs readers in at least two parts.
"""
