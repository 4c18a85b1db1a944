"""Measurements that are no `rote.measure.Cell`: one module each, with `PARAMS` and `run(params, seed)`."""
