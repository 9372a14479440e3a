"""How text reaches a terminal."""
