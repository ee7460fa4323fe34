"""Ridge regression with its leave-one-out errors."""
