"""The policy engine: vLLM in one Ray actor per replica, and its client.

Invariant: each sampled token carries its log-probability and its policy version; without token ids a request fails.
To pass another option to vLLM, add a field to `config.EngineConfig` and map it in `config.engine_arguments`.
"""
