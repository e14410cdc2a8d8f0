"""What users import for their own programs; ``unskew`` exports it."""
