"""What concerns the whole process: its environment, hooks, scripts and libraries."""
