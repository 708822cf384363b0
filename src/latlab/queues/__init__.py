"""Where do events wait inside a running application."""
