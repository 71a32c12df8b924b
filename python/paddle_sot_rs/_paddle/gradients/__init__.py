"""The backward part of a program: which gradients it has, what it reads, and when it runs again."""
