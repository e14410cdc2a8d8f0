"""Figure 16: TPC-H's query 5 as a continuous query, by chains of keyed operators."""
