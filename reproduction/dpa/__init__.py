"""The DPA paper (*DPA Load Balancer: Load balancing for Data Parallel Actor-based systems*) again."""

from collections.abc import Callable

from reproduction.dpa.rounds import figure_3, table_1
from reproduction.page import Report, Sizing

EXPERIMENTS: dict[str, Callable[[Sizing], Report]] = {"table-1": table_1, "figure-3": figure_3}
