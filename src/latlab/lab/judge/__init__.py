"""What limits a pipeline, and whether its run can be trusted."""
