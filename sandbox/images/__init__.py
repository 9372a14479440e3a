"""Dockerfiles of the shipped images, and the code that builds them."""
