"""What should I run: budgets of bits, privacy, time and energy in, settings out."""
