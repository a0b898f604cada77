"""The interpreter of the pool in the owner process: turns its orders into effects."""
