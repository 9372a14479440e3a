"""Keep warm sandboxes ready, and stop starting new ones while the backend fails."""
