"""Terminal output: tables, JSON, the live view and sanitized text."""
