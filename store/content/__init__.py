"""Bulk content: token records and content-addressed blobs.

A row refers to its content by hash. Content is written and synced before the row that refers to it.
"""
