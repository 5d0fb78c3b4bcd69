"""Decide: pure functions on the values of `model`; no clock, no input or output.

The stages are modules here, their parts are in folders: `schema` has what may stand in a file, field by field, `pod`
the parts of a rendered pod; `status` the files of the status branch.
"""
