"""Arguments, words and tables: the only part that speaks with people, and the only one that ends the process."""
