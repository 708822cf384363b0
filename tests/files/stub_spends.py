"""What a stub that is asked for the component's own times takes."""

from __future__ import annotations

from latlab.stubs.studies.runner import Lab


def require_as_asked(lab: Lab) -> None:
    """Its five calls take what the component's took, as near as a deadline is kept."""
    units = lab.measure()
    lab.run("record")
    lab.keep(units)
    (asked,), (spent,) = units.values(), lab.spent().values()
    assert spent.times.shape == (5, 2)
    assert (spent.times[:, 0] > 0.95 * asked.times[:, 0]).all()  # until its deadline, and so never less
