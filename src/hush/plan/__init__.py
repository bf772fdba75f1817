"""What should I run, under these budgets of bits and ε: many settings simulated on data that is not private."""
