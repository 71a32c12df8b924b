"""PaddleSOT in Rust."""
