"""Tests of `train.handoff`."""
