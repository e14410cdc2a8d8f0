"""The functions and classes for users' own programs, which ``unskew`` exports."""
