"""Run the command line by ``python -m turnwise``."""

from .console.app import main

if __name__ == "__main__":
    main()
