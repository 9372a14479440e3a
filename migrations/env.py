"""Alembic's environment. ``turnwise.store.migrate`` passes the connection and the tables."""

from alembic import context

connection = context.config.attributes.get("connection")
if connection is None:
    raise SystemExit("migrations run through turnwise: `turnwise db upgrade --store URL`")

context.configure(
    connection=connection,
    target_metadata=context.config.attributes["metadata"],
    render_as_batch=connection.dialect.name == "sqlite",
    transactional_ddl=True,
    compare_server_default=False,
)
with context.begin_transaction():
    context.run_migrations()
