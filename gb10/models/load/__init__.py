"""A model recipe's text becomes a frozen recipe: its values, the line of each part, and what is wrong with it."""
