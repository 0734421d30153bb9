"""Tables, data sets and their splits.

`credo.data.tables` reads a file and makes tensors of it (with pandas), `credo.data.sets` has data by name,
`credo.data.toys` makes some, `credo.data.splits` divides them.
"""
