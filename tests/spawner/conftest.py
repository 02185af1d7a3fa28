"""A machine that runs other tests beside these is slow at times; that is no failure."""

from hypothesis import settings

settings.register_profile("patient", deadline=None)
settings.load_profile("patient")
