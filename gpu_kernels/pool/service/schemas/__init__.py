"""The shapes of the API: bodies and queries as they may come, answers as they leave; one module a subject."""
