"""Figure 16: TPC-H's query 5 as a continuous query, by a chain of keyed operators and as one query of the library's."""
