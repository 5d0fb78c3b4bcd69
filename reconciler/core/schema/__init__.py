"""What may stand in a file, field by field: the tables, and the readers of each part."""
