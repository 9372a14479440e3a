"""Small repair tasks for a tiny policy."""
