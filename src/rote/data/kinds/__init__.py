"""The kinds of tables, one file each, found by its name; see `rote.data.table`."""
