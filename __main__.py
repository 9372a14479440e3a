"""Run the command line by ``python -m turnwise``."""

from .console.app import main

main()
