"""Rows that are no array in memory."""


class Parts:
    """Rows that are read a part at a time."""

    chunks = (40, 1)

    def __init__(self, rows):
        self._rows, self.shape, self.ndim, self.dtype = rows, rows.shape, 2, rows.dtype

    def __getitem__(self, part):
        return self._rows[part]
