"""What a messaging run is asked, and what it gave."""
