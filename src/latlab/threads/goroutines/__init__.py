"""Go programs: their goroutines as roles, in place of the threads that run them."""
