"""What tests share that start programs of their own: how a query is started, waited for, killed and started again."""
