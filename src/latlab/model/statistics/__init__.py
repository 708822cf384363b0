"""Results of statistics: summaries, histograms, paired experiments."""
