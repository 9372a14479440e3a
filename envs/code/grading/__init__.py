"""Grade submitted files by cases and hidden tests, in a fresh sandbox."""
