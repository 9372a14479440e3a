"""Grade what an agent left: hidden tests and cases, in a sandbox of the grader."""
