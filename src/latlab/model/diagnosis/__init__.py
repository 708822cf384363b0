"""What is diagnosed, and the answer: layout, findings, forecasts."""
