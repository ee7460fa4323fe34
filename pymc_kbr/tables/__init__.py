"""Reference tables, in memory and on the disk."""
