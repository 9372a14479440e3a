"""The first tables: those of ``store.schema``. One revision until the first release, which writes them out here.

Until then a change of what is stored, be it a table, the form of a value or a digest, gives this revision the next
name, in ``revision`` and in the name of the file, so that an older store is refused. From the release on, it is frozen:
``alembic revision --autogenerate`` on an empty database prints its statements.
"""

from alembic import op
from sqlalchemy import MetaData

revision = "0006"
down_revision = None
branch_labels = None
depends_on = None


def upgrade() -> None:
    _metadata().create_all(op.get_bind(), checkfirst=False)


def downgrade() -> None:
    _metadata().drop_all(op.get_bind())


def _metadata() -> MetaData:
    metadata: MetaData = op.get_context().opts["target_metadata"]
    return metadata
