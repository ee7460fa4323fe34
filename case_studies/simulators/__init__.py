"""Two models of PyMC's ABC gallery."""
