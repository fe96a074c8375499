"""What the ledger answers: functions of a transaction that change nothing."""
