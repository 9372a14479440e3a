"""Short text environments that a pretrained language model finds natural: plain sentences, numbers and names.

Each file is one environment: an immutable puzzle, and the environment that plays it. Every environment reads an action
by the rule of ``reading``, has three levels of difficulty, pays partial credit, and ends within its turns. To add one,
write a ``Puzzle`` and a ``LanguageEnv`` in a file here, and add its id to ``worlds.ENVIRONMENTS``.
"""
