"""Check a sandbox backend: conformance cases and isolation attacks, run by `turnwise sandbox check`."""
