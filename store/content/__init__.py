"""Bulk content: token records and content-addressed blobs."""
