"""What the project claims, with the program that shows each claim; not part of the package."""
