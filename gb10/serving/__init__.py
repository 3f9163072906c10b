"""What comes after: nodes, services, their doctor, their benchmarks."""
