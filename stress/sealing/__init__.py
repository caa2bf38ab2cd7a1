"""A sealed log in use: writers, ingests, archives, retention and holds beside a sealer, verified again and again.

`roles` are the processes that change the log; the main module starts them and a sealer, and verifies.
"""
