"""Pure functions on arrays: quantiles, deviations, tests, change points."""
