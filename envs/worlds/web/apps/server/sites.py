"""The three apps; the modules in the folder of an app register its handlers."""

from .web import Site

SHOP = Site(
    "shop",
    "Corner Shop",
    {"Search": "/search", "Cart": "/cart"},
    {"Orders": "/orders", "Wish list": "/wishes", "Account": "/account"},
)
TRACKER = Site(
    "tracker", "Tracker", {"Projects": "/", "Issues": "/issues", "Labels": "/labels"}, {"Settings": "/settings"}
)
WIKI = Site(
    "wiki",
    "Open Wiki",
    {"Articles": "/articles", "Search": "/search", "Forum": "/forum"},
    {"Messages": "/messages", "Watch list": "/watches", "Profile": "/profile"},
)
