"""What commands share: options, groups that import lazily, what is said when output fails."""
