"""Images: one Dockerfile per shipped image, and the code that builds them on this machine.

Every image has Python 3.9 or newer, ``/workspace`` and ``/run/turnwise``. To add an image, add a folder with a
Dockerfile that begins with ``ARG BASE`` and append the folder's name to ``reference.SHIPPED_IMAGES``. To put a driver
or an app into an image, add its folder to ``reference.PROGRAMS`` and end the Dockerfile with ``COPY programs
/opt/turnwise``.
"""
