"""Conformance cases: one file per topic, ``run`` combines them. The rest of turnwise relies on every case."""
