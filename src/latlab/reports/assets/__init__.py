"""Style sheets and scripts of pages, in files of their own."""
