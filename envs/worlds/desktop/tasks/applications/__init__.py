"""The task templates, one module per application; ``several`` holds the tasks that need more than one.

``documents`` draws their texts and pictures. To add a template: a function with ``@registry.template()`` in the module
of its application.
"""
