"""Transactions: producers by transactional id, and what they have open."""
