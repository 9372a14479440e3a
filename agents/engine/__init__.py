"""The policy engine: vLLM in one Ray actor per replica, and its client.

Invariant: each sampled token carries its log-probability and its policy version; without token ids a request fails.
To pass another argument to vLLM, add its name to `vllm_arguments.toml`.
"""
