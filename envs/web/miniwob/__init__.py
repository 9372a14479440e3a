"""The MiniWoB++ tasks."""
