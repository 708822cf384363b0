"""By how much one signal or feed is behind another."""
