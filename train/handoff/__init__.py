"""Admitted batches in the formats of other trainers, where such a trainer runs the same method."""
