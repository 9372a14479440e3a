"""Every method that a researcher may replace, one file per method.

A slot is a package here, with its abstract base class in ``base.py``. The name of a method in the configuration is the
name of its file; ``"my_pkg.module:Class"`` selects a class from outside.

Invariant: nothing here imports ``trainer.config`` or anything above it, and the loop depends on no method by name.

To add a method, add one file to the package of its slot. To add a slot, add a package with a ``base.py`` and a field to
``algorithm_set.AlgorithmSet``. To bundle choices under one name, add a TOML file to ``presets/``.
"""
