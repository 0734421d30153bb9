"""Trouble with data, told to the person who brought them."""


class DataError(ValueError):
    """A file, a table or a column that cannot be used, with a sentence that says why and what to do."""
