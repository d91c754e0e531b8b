"""torchair for the CPU: sonde.torchair by TorchAir's name."""

import sonde.torchair
from sonde.npu_stand_in import identity
from sonde.torchair import *  # noqa: F403

identity.install()
__getattr__ = sonde.torchair.__getattr__
