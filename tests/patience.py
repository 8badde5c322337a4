"""How long a test waits for what comes at once: long on a machine that is busy, and less where a planted fault keeps it
away for good.
"""

import os

SECONDS = 5 if "PLANTED" in os.environ else 30
