"""Small environments in few words, for policies trained from scratch: on a site of text, in code, on the web, on a
desktop. Each is one file: its words, its tasks, the environment.

Invariant: an instance is a pure function of the seed, the split and the options.
"""
