"""The commands of `unskew`, a thin file each, and what their options have in common; ``main`` lists them."""
