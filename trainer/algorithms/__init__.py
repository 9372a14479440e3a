"""Everything a researcher swaps: one file per method, one folder per slot."""
