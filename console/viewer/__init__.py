"""The viewer: a read-only web application over the typed records of a store.

Every page is a record that a function of ``pages/`` loads with ``store/queries``, and an HTML template that prints it;
the same record is the JSON document under ``/api``. No page has SQL of its own, changes the store, or prints a text of
an agent as markup. To add a page, write its loader in ``pages/`` and its template in ``templates/``, and list both in
``application.PAGES``.
"""
