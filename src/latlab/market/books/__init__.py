"""What books give: the inside, depth, snapshots, trades, bars, LOBSTER's files."""
