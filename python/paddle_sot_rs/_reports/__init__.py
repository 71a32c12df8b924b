"""What a run was: recorded, and written as one page."""
