"""What would be gained by making a part faster."""
