"""torchair for the CPU: sonde.torchair by TorchAir's name."""

import sonde.torchair
from sonde.npu_stand_in import backends, identity
from sonde.torchair import *  # noqa: F403

identity.install()
backends.know_devices()
__getattr__ = sonde.torchair.__getattr__
