"""Functions that stand in graphs, or in the place of Paddle's."""
