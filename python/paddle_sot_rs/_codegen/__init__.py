"""What generated code calls."""
