"""Task templates of the web applications: goal, wanted end state, oracle and near misses."""
