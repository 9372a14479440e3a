"""Images: the recipes that installed packages register, and the code that builds them on this machine.

Every image has Python 3.9 or newer, ``/workspace`` and ``/run/turnwise``. To add an image, write an ``ImageRecipe``
(``reference``) for a folder with a Dockerfile that begins with ``ARG BASE``, and name it in an entry point of the group
``turnwise.sandbox_images``. To put a driver or an app into an image, add its folder to ``programs`` of the recipe and
end the Dockerfile with ``COPY programs /opt/turnwise``.
"""
