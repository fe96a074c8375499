"""The HTTP service: thin tornado handlers, authentication, metrics. Imports ``policy`` and ``ledger``."""
