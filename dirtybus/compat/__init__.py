"""Other projects' names over our own parts: a migration is a change of imports."""
