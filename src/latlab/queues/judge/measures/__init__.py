"""What is measured of queues, stages and threads over a window: that all judgement is made of."""
