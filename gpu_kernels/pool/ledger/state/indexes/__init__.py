"""What is kept up to date with every change of the book, so that no decision looks at all rows."""
