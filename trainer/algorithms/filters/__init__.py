"""Slots ``group_filters`` and ``sample_filters``: which groups and which tokens are trained on."""
