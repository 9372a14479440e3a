"""The shop: categories, search, cart, a checkout in three steps, orders, reviews and a wish list."""

from . import account, cart, catalog, checkout, orders, reviews
from .base import site

__all__ = ["account", "cart", "catalog", "checkout", "orders", "reviews", "site"]
