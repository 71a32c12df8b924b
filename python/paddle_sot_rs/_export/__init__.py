"""Example sizes of open dims, and the check of exported files."""
