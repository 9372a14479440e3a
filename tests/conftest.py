"""What every test shares: hypothesis without a clock, since a busy machine is no failure of the code."""

from hypothesis import settings

settings.register_profile("turnwise", deadline=None)
settings.load_profile("turnwise")
