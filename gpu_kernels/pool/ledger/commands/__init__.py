"""What changes the ledger: functions of a transaction, each a decision or a part of one."""
