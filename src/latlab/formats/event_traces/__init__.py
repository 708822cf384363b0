"""Event traces and samples of queues as applications write them."""
