"""The pool controller: the service that owns the ledger of who holds which slice.

``policy`` decides and knows no clock and no database; ``ledger`` stores, one transaction a decision;
``service`` speaks HTTP.
"""
