"""Self-check: what every backend must do (conformance) and must contain (attacks), run by `turnwise sandbox check`.

A third-party backend passes the self-check if ``run.run_conformance`` and ``run.run_attacks`` report no failure. Cases
and attacks use only ``Sandbox``, never a backend. To add a case or an attack, write a coroutine in the file of its
topic, and decorate it with ``CASES.add`` or ``ATTACKS.add``.
"""
