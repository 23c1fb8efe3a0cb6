"""The facade: one method a command, and the Python API of a lab.

Imports that cost time are inside the methods, so that a reading command never loads training code.
"""

from workbench.lab.facade import Lab
from workbench.lab.opened import utc_now

__all__ = ["Lab", "utc_now"]
