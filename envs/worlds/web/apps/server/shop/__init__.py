"""The shop: categories, search, cart, a checkout in three steps, orders, reviews and a wish list."""

from ..sites import SHOP as site
from . import account, cart, catalog, orders

__all__ = ["account", "cart", "catalog", "orders", "site"]
