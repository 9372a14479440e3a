"""The trajectory store: an SQL database and a folder of blobs.

The store is the record of a run, its memory across restarts, and the queue between rollout and learner. A resume flags
rows as abandoned, and deletes none; only a retention policy removes content.

* ``database`` opens a store, ``migrate`` upgrades it, ``schema`` defines the tables.
* ``operations`` are the writes, one transaction each and safe to repeat. ``writing`` takes those of an event loop to
  the one writer, which commits many of them together.
* ``queries`` are the reads. ``content`` encodes tokens and stores blobs.
* ``run_store`` is the store as one run uses it: typed writes, reads, and the groups between scorer and learner.
* ``exchange`` exports and imports trajectories. ``maintenance`` checks, prunes, searches and backs up a store.

To add a table, edit ``schema``; from the first release on, also add a migration, which a test compares with it.
"""
