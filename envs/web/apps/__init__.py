"""Three sites of our own: a shop, an issue tracker and a wiki with a forum, with tasks graded on their end state.

``templates.draw("shop/checkout", seed)`` makes a task: a goal in words, the world that the site begins with, a check of
its database at the end and of the answer, an oracle that solves it and near misses that must not. The site itself is
the folder ``server``, copied into a sandbox and started there as ``python3 -I start.py SITE PORT DATABASE WORLD.json``;
what is wanted stays on the host. The database is one file, whole after every answered request: copy it out and open it
read only for the check.
"""
