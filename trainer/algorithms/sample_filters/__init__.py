"""Slot ``sample_filters``: weights of tokens inside an update; a list, applied in order.

Invariant: a filter changes weights and never refills the batch.

To add a sample filter, add a file with one subclass of ``SampleFilter``.
"""
