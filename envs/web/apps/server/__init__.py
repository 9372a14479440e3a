"""The server of the three apps, which runs inside the sandbox: three web applications on SQLite on a small framework.

The image contains the folder, which runs under the sandbox's Python: it imports the standard library and itself only.
``start`` is the entry point, ``serve`` the HTTP server, ``web`` routes and sessions, ``html`` and ``requests`` write
and parse, ``data`` is the database, ``choices`` the options of forms.

To add a page: a handler with ``@site.get(pattern)`` or ``@site.post(pattern)`` in a module of its app.
"""
