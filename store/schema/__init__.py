"""The tables, as SQLAlchemy Core. The first migration creates the same ones; a test compares the two.

* ``id`` is the name that people see, such as ``quickstart:7-3``; ``no`` is an integer that other tables refer to;
  ``uid`` (UUIDv7) is unique among all stores.
* A value that people filter or sort by is a column; the rest is JSON. Short texts and tokens are columns; long content
  is a row of ``blob``, named by its SHA-256, which is 32 bytes in this column and in every other.
* The order of steps and images is ``idx``. ``update_no`` counts updates (``update`` is a keyword of SQL).
* The vocabularies of ``status``, ``state`` and ``source`` are in ``records``; ``turnwise db check`` compares
  the columns with them, so that a new word needs no migration.
* A turn is one row of ``step``, with its messages packed into one column: the rows and index entries of messages would
  take more space than the messages. A turn that ended before its action is a row of ``partial_turn``.
* ``step``, ``partial_turn`` and the images grow with every turn and have no foreign keys: a probe per reference would
  cost more than the insert. ``turnwise db check`` finds a reference to a missing row.

The schema itself guarantees exactly-once consumption: by the partial unique indexes of ``batch_group`` and
``batch_item``, a fresh group or trajectory is in one surviving batch only.
"""

from .episodes import (
    FAILED,
    OWN,
    RESULT,
    SCREENSHOT,
    SUCCEEDED,
    blob,
    message_image,
    partial_turn,
    reward,
    reward_set,
    rollout_group,
    step,
    step_image,
    succeeded,
    task,
    trajectory,
)
from .runs import (
    EVALUATION,
    PACE,
    batch_group,
    batch_item,
    lease,
    metric,
    policy_version,
    run,
    store_setting,
    train_batch,
)
from .statements import KEYS_MAX, Lookup, among, insert_once, no_of
from .types import metadata
