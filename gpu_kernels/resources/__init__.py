"""What controller and Jupyter server tell, each thing as one type: docs/design/api.md, "One model".

The ledger's queries answer these values, the service sends them as JSON and documents them, the client reads
them back into the same types, and pages and TypeScript show their fields. A field is added here and where the
ledger fills it in. One that older controllers do not send has a default.
"""
