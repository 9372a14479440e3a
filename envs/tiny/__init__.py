"""Small environments in few words, for policies trained from scratch: on a site of text, in code, on the web, on a
desktop. Each is one file, with its tasks in the file next to it.

To add a kind of task to one of them, see the file of its tasks.
"""
