"""How fast dirtybus is, beside its peers and the kernel. Ratios of one run travel between machines; times do not.

``python -m benchmarks`` compares whole products. `codec`, `locker` and `pool_step` measure one part each and run alone.
"""
