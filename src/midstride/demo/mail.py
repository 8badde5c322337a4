"""A real mail server on loopback that files what it takes into a Maildir, and can withhold its answer.

with MailServer(folder) as server:
    taken = server.withhold()      # set once the next mail is filed; its 250 is never said
"""

from __future__ import annotations

import asyncio
import mailbox
import threading
from email.message import Message
from pathlib import Path
from typing import Any, Self

from midstride.errors import DeclarationError


class MailServer:
    """Serves from entering to leaving the block, on a *port* that the system gives; *folder* becomes the Maildir."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.port = folder, 0
        self._mailbox = mailbox.Maildir(folder)  # for the server's thread alone
        self._withheld: threading.Event | None = None
        # A factory of its own, so that the runner leaves the thread's current loop alone.
        self._runner = asyncio.Runner(loop_factory=asyncio.new_event_loop)

    def __enter__(self) -> Self:
        smtp, loop = _smtp(), self._runner.get_loop()
        serve = loop.create_server(lambda: smtp(self, hostname="localhost", loop=loop), "127.0.0.1", 0)
        self._server = loop.run_until_complete(serve)
        self.port = self._server.sockets[0].getsockname()[1]
        self._thread = threading.Thread(target=loop.run_forever, name="mail server", daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        loop = self._runner.get_loop()
        loop.call_soon_threadsafe(loop.stop)
        self._thread.join()
        self._server.close()
        self._runner.close()

    def withhold(self) -> threading.Event:
        """Keep the answer to the next mail back; the event is set once that mail is filed."""
        self._withheld = threading.Event()
        return self._withheld

    def mails(self) -> list[Message]:
        """Return what is in the mailbox, in the order it came."""
        # A Maildir's names begin with the second of arrival and count on within a process.
        found = mailbox.Maildir(self.folder, create=False)
        return [found[key] for key in sorted(found.keys(), key=_arrival)]

    async def handle_DATA(self, server: Any, session: Any, envelope: Any) -> str:
        """File a mail that has come whole, then say so."""
        self._mailbox.add(envelope.content.replace(b"\r\n", b"\n"))
        if self._withheld is not None:
            taken, self._withheld = self._withheld, None
            taken.set()
            await asyncio.Event().wait()  # until the connection ends: that cancels this
        return "250 OK: filed"


def _smtp() -> Any:
    try:
        from aiosmtpd.smtp import SMTP
    except ImportError:
        raise DeclarationError("the demo's mail server needs aiosmtpd: pip install 'midstride[demo]'") from None
    return SMTP


def _arrival(key: str) -> tuple[int, int]:
    """Return the second and the count in a name like `1764440401.M92P17Q2.host`."""
    seconds, unique = key.split(".")[:2]
    return int(seconds), int(unique.partition("Q")[2])
