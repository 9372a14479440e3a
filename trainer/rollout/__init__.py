"""Keep groups in flight: admission, dispatch, workers, circuit breaker."""
