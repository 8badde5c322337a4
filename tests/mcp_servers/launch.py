"""The command of a stdio server: `python -S launch.py SOCKET FOLDER` gives its pipes to a fork of `server.py`.

It ends when the server does, which alone has the pipes.
"""

import json
import os
import socket
import sys

asking = socket.socket(socket.AF_UNIX)
asking.connect(sys.argv[1])
wish = {"folder": sys.argv[2]}
socket.send_fds(asking, [json.dumps(wish).encode()], [0, 1, 2])
for descriptor in (0, 1, 2):
    os.close(descriptor)
asking.recv(1)
