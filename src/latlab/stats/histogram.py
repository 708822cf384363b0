"""HDR histograms: defined in `latlab.model.histogram`, since formats read them and know no statistics."""

from latlab.model.histogram import HOUR_NS, MAX_VALUE, Bins, Histogram

__all__ = ["HOUR_NS", "MAX_VALUE", "Bins", "Histogram"]
