"""Run as a file, wherever the folder was copied: ``python3 -I start.py SITE PORT DATABASE WORLD``. Without ``-I`` the
folder itself would be searched for modules, and its ``html`` found before that of the standard library.
"""

import importlib
import os
import sys

if __name__ == "__main__":
    folder = os.path.dirname(os.path.abspath(__file__))
    sys.path.append(os.path.dirname(folder))
    importlib.import_module(os.path.basename(folder) + ".serve").main()
