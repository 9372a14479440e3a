"""The entry point: listens before it imports the app, so that the browser connects meanwhile."""

import importlib
import socket


def main(site: str, port: str, database: str, world: str) -> None:
    """Serve the world in a file on 127.0.0.1 until killed; print ``ready PORT`` once requests are answered.

    Raises:
        OSError, ValueError: the port is in use, the site is unknown, or the file cannot be read or is not a world.
        sqlite3.Error: the world does not match the schema, or the database is not new.
    """
    listening = socket.create_server(("127.0.0.1", int(port)))
    importlib.import_module(".serve", __package__).serve(listening, site, database, world)
