"""The infinite-sites coalescent with recombination."""
