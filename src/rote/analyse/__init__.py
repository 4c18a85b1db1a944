"""What measurements and models say: laws, audits, and what happens inside."""
