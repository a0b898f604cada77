"""What is measured: one module a contestant, and the programs and apps that it needs. None measures itself."""
