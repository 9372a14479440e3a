"""The records of the pages: one loader per page, which takes the store and the parts of a URL.

A loader reads with ``store/queries`` and with the functions that the commands print from; its record has only values
that JSON holds. Lists are paged: no page shows every turn of a run.
``listing`` has the pages with the parameters of their queries.
"""
