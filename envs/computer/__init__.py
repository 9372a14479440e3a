"""What environments with a screen share: elements and marks."""
