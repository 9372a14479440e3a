"""What runs inside the sandbox: three web applications on SQLite and the little framework under them. Copied into the
box as a folder and started by the box's own Python, so nothing here imports more than the standard library and itself.
"""
