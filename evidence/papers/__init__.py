"""The papers' tables and figures, done again with this library."""
