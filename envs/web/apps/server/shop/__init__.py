"""The shop: categories, search, a cart, a checkout in steps, orders, reviews and a wish list."""

from . import account, cart, catalogue, checkout, orders, reviews
from .base import site

__all__ = ["account", "cart", "catalogue", "checkout", "orders", "reviews", "site"]
