"""The server of the three apps, which runs inside the sandbox: three web applications on SQLite on a small framework.

The image contains the folder, which runs under the sandbox's Python: it imports the standard library, Jinja and itself
only. ``start`` is the entry point, ``serve`` the HTTP server, ``web`` has routes, sessions and pages, ``requests``
parses, ``data`` is the database, ``changes`` the changes that take several rows, ``choices`` the options of forms,
``sites`` the three apps.
``schemas/`` holds the tables, ``templates/`` the HTML: a file per module or app, and a macro per page.

To add a page: a handler with ``@site.get(pattern)``, ``@site.post(pattern)`` or ``@site.form(pattern)`` in a module of
its app, and a macro in the app's templates.
"""
