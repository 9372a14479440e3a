"""Web environments: an agent and a browser."""
