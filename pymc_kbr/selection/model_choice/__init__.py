"""Which of several models, by the tables that were simulated from them."""
