"""HDR histograms, defined in `latlab.model.statistics.histogram`: formats read them too."""

from latlab.model.statistics.histogram import HOUR_NS, MAX_VALUE, Bins, Histogram

__all__ = ["HOUR_NS", "MAX_VALUE", "Bins", "Histogram"]
