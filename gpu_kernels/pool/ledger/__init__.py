"""The database: models, migrations and the transactions. Imports ``policy``; knows nothing of HTTP."""
