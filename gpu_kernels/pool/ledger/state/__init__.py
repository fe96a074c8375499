"""What the ledger holds: rows, the book of those in force with its indexes, the states of a lease."""
