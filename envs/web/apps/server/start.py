"""The entry point, run as a file wherever the folder is: ``python3 -I start.py SITE PORT DATABASE WORLD``.

Without ``-I``, Python would search this folder for modules and find its ``html`` before the standard library's.
"""

import importlib
import os
import sys

if __name__ == "__main__":
    folder = os.path.dirname(os.path.abspath(__file__))
    sys.path.append(os.path.dirname(folder))
    importlib.import_module(os.path.basename(folder) + ".serve").main()
