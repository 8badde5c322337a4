"""Two real HTTP services on loopback, each with a database of its own, for the recipes: payments and an issue tracker.

Each can withhold its answer to a request that it has carried out, so that its client can be killed in between.
"""

import contextlib
import json
import sqlite3
import threading
from contextlib import closing
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, urlsplit


class Service:
    """Serves from entering to leaving the block; `rows` is what its database holds."""

    schema = ""

    def __init__(self, folder):
        self.database = folder / f"{type(self).__name__}.db"
        with closing(sqlite3.connect(self.database)) as connection:
            connection.executescript(self.schema)
        self.requests = []
        self._withheld = None

    def __enter__(self):
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(self))
        self._server.daemon_threads = False
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.01})
        self._thread.start()
        return self

    def __exit__(self, *_):
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    @contextlib.contextmanager
    def withhold(self):
        """Yield an event that is set once the next POST is carried out; until the block ends it is not answered."""
        carried_out, let_go = threading.Event(), threading.Event()
        self._withheld = (carried_out, let_go)
        try:
            yield carried_out
        finally:
            let_go.set()

    def done(self):
        """Wait where an answer is to be withheld."""
        if self._withheld is not None:
            (carried_out, let_go), self._withheld = self._withheld, None
            carried_out.set()
            let_go.wait(60)

    def rows(self, query):
        """Return what its database answers."""
        with closing(sqlite3.connect(self.database)) as connection:
            return connection.execute(query).fetchall()


class Payments(Service):
    """Charges once for each Idempotency-Key, and gives a repeated one its first answer; nobody may owe over 10,000."""

    schema = "create table charges (id integer primary key, key text unique not null, customer text, cents integer)"

    def post(self, path, headers, body):
        """Charge."""
        if body["cents"] > 10_000:
            return 402, {"error": "the card was declined"}
        key = headers["Idempotency-Key"]
        with closing(sqlite3.connect(self.database)) as connection, connection:
            connection.execute(
                "insert into charges (key, customer, cents) values (?, ?, ?) on conflict do nothing",
                (key, body["customer"], body["cents"]),
            )
            (number,) = connection.execute("select id from charges where key = ?", (key,)).fetchone()
        return 200, {"id": f"ch_{number}"}


class Renderer(Service):
    """Takes one job for each Idempotency-Key; `stands` says what it tells of all its jobs."""

    schema = "create table jobs (id integer primary key, key text unique not null, film text)"
    stands = {"state": "running"}

    def post(self, path, headers, body):
        """Take a job."""
        with closing(sqlite3.connect(self.database)) as connection, connection:
            connection.execute(
                "insert into jobs (key, film) values (?, ?) on conflict do nothing",
                (headers["Idempotency-Key"], body["film"]),
            )
            (number,) = connection.execute(
                "select id from jobs where key = ?", (headers["Idempotency-Key"],)
            ).fetchone()
        return 202, {"id": f"job-{number}"}

    def get(self, query):
        """Say how a job stands."""
        self.done()
        return (404, {}) if self.stands is None else (200, self.stands)


class Tracker(Service):
    """Keeps issues, and lists those with a label."""

    schema = "create table issues (number integer primary key, title text, body text, label text)"

    def post(self, path, headers, body):
        """Open an issue."""
        if headers["Authorization"] != "Bearer a-token":
            return 401, {"error": "who are you?"}
        with closing(sqlite3.connect(self.database)) as connection, connection:
            new = (body["title"], body["body"], body["labels"][0])
            made = connection.execute("insert into issues (title, body, label) values (?, ?, ?)", new)
        return 201, {"number": made.lastrowid}

    def get(self, query):
        """List the issues with a label."""
        with closing(sqlite3.connect(self.database)) as connection:
            found = connection.execute("select number from issues where label = ?", query["labels"]).fetchall()
        return 200, [{"number": number} for (number,) in found]


def _handler(service):
    class Handler(BaseHTTPRequestHandler):
        def do_POST(self):
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            service.requests.append(("POST", body))
            answer = service.post(self.path, self.headers, body)
            service.done()
            self._answer(*answer)

        def do_GET(self):
            query = parse_qs(urlsplit(self.path).query)
            service.requests.append(("GET", query))
            self._answer(*service.get(query))

        def _answer(self, status, value):
            with contextlib.suppress(ConnectionError):  # the client is gone: killed, as it should be
                self.send_response(status)
                self.end_headers()
                self.wfile.write(json.dumps(value).encode())

        def log_message(self, *_):
            pass

    return Handler
