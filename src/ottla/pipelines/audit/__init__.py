"""Audit: what came into and went out of every step, counted batch by batch, published, and checked afterwards."""
