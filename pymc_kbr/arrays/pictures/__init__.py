"""What all pictures share: one palette, and axes of the user's or new ones."""
