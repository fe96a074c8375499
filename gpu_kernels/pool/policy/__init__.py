"""Pure decisions: quota, placement, queue. No clock, no I/O; imports nothing of the ledger or the service."""
