"""Programs from outside: test suites that others wrote, and what of them is known to differ."""
