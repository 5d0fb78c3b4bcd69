"""Decide: pure functions on the values of `model`; no clock, no input or output."""
