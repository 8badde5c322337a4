"""How long a test waits for what comes at once: long on a machine that is busy, and less where a planted fault keeps it
away for good.
"""

import os

IMPATIENT = "MIDSTRIDE_TESTS_IMPATIENT"
SECONDS = 5 if IMPATIENT in os.environ else 60
