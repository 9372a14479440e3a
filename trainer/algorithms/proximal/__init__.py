"""Slot `proximal`: the policy that anchors the trust region."""
