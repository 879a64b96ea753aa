"""A small lender's own code, which reads incomes from the service."""
