"""The choices that the forms of the apps offer; the pages, the worlds and the tasks share them.

A mapping is from the stored value to the displayed text.
"""

CONTACTS = {"email": "By e-mail", "phone": "By phone", "none": "Not at all"}
DELIVERY = {"standard": ("Standard delivery", 400), "express": ("Express delivery", 1200), "pickup": ("Pickup", 0)}
"""From the stored value to the displayed text and the cost in cents."""
RETURN_REASONS = ("Too small", "Too large", "Damaged", "Wrong product", "No longer needed")
REFUNDS = {"card": "To my card", "voucher": "As a voucher"}

PRIORITIES = ("low", "normal", "high", "urgent")
DIGESTS = {"daily": "Daily", "weekly": "Weekly", "never": "Never"}

REPORT_REASONS = ("Spam", "Rude", "Off topic", "Wrong board", "Copied without permission")
NOTIFICATIONS = {"all": "Every change", "own": "Changes to my articles", "none": "Nothing"}
