"""Initial database contents of the web applications, as pure functions of a seed."""
