"""Functions of NumPy arrays, which all other folders use."""
