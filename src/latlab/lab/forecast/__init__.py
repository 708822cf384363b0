"""What making one stage faster would buy: by stub, by study, by model."""
