"""Names of the shipped images."""

SHIPPED_IMAGES = ("code", "web", "desktop")


def image_reference(image: str) -> str:
    """Return the engine's reference of an image; shipped images have short names in specs."""
    return f"turnwise/{image}:latest" if image in SHIPPED_IMAGES else image
