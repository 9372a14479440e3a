"""Keep groups in flight: admission, dispatcher, group player, scoring, worker pool, circuit breaker.

Invariant: every group that opens closes exactly once and is scored exactly once, and rollout waits for learning only in
``admission``.

To add a bound on the groups in flight, add it to ``admission.capacity`` and pass its value in ``Dispatcher.fill``.
"""
