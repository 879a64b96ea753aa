"""Asyncio SDK for an income-verification service: nothing lost, nothing leaked."""
