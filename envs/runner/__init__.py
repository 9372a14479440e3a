"""Run one environment: a thread, a timeout per call, and checked step results."""
