"""What every test shares: how hard hypothesis looks. Fixtures stand beside the tests that use them."""

from __future__ import annotations

import os

from hypothesis import HealthCheck, settings

# two threads on two busy cores make a small model ten times slower; NumPy reads this when it is first imported
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

# no deadline and no complaint of slowness: the same test is ten times slower when both cores are busy
settings.register_profile(
    "ci", max_examples=100, deadline=None, print_blob=True, suppress_health_check=[HealthCheck.too_slow]
)
# hypothesis itself repeats the same examples where CI is set; a night is for finding new ones
settings.register_profile("nightly", settings.get_profile("ci"), max_examples=2000, derandomize=False)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "ci"))
