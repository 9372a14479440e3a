"""The server of the three apps, which runs inside the sandbox: three web applications on SQLite on a small framework.

The image contains the folder, which runs under the sandbox's Python: it imports the standard library, Jinja and itself
only. ``main`` is the entry point, ``serve`` the HTTP server, ``web`` has routes, sessions and pages, ``requests``
parses, ``data`` is the database, ``changes`` the changes that take several rows, ``choices`` the options of forms,
``sites`` the three apps.
``schemas/`` holds the tables, ``templates/`` the HTML: a file per module or app, and a macro per page.

To add a page: a handler with ``@site.get(pattern)``, ``@site.post(pattern)`` or ``@site.form(pattern)`` in a module of
its app, and a macro in the app's templates.
"""

import importlib
import socket


def main(site: str, port: str, database: str, world: str) -> None:
    """Serve the world in a file on 127.0.0.1 until killed; print ``ready PORT`` once requests are answered.

    The server listens before it imports the app, so that the browser connects meanwhile.

    Raises:
        OSError, ValueError: the port is in use, the site is unknown, or the file cannot be read or is not a world.
        sqlite3.Error: the world does not match the schema, or the database is not new.
    """
    listening = socket.create_server(("127.0.0.1", int(port)))
    importlib.import_module(".serve", __package__).serve(listening, site, database, world)
