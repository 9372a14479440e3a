"""The agent's tools: the grammar of actions, and what each action does in the agent's sandbox."""
