"""What the requests say: why the slow ones are slow, what a change would buy, whether one helped."""
