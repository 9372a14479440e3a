"""Who acts in an episode: the policy, baselines, a chat API."""
