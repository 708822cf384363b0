"""In the application: wrappers that publish the counts of Python's queues."""
