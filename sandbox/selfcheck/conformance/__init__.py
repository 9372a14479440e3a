"""Conformance cases: one file per topic, ``selfcheck.run`` combines them. The rest of turnwise relies on every case."""
