"""Semi-online training: ``env`` plays the episodes of experts in a file, which the command ``experts`` writes.

Invariant: a policy's own action stays in its trajectory; a patch replaces it in the history only.
"""
