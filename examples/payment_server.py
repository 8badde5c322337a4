"""A small payment API with a database, which charges once for each Idempotency-Key: the other side of payments.py.

    python examples/payment_server.py DATABASE [PORT]

It prints its address and serves until it is ended. The same key again gets the stored answer, with the header
`Idempotent-Replayed: true`; the same key with other contents is refused (422), and so is a charge without a key (400).
"""

import json
import sqlite3
import sys
from contextlib import closing
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

TABLE = """
create table if not exists charges (
    id integer primary key, key text not null unique, customer text not null, cents integer not null
)
"""


class Payments(BaseHTTPRequestHandler):
    """POST /charges makes a charge, GET /charges lists all of them."""

    database: str

    def do_POST(self) -> None:
        key = self.headers.get("Idempotency-Key")
        asked = json.loads(self.rfile.read(int(self.headers.get("Content-Length", 0))) or b"{}")
        if not key:
            return self.answer(400, {"error": "a charge needs an Idempotency-Key"})
        with closing(self.connection_to_database()) as connection, connection:  # one transaction
            made = connection.execute(
                "insert into charges (key, customer, cents) values (?, ?, ?) on conflict (key) do nothing",
                (key, asked["customer"], asked["cents"]),
            ).rowcount
            charge, customer, cents = connection.execute(
                "select id, customer, cents from charges where key = ?", (key,)
            ).fetchone()
        if (customer, cents) != (asked["customer"], asked["cents"]):
            return self.answer(422, {"error": "this key was used for another charge"})
        return self.answer(201, {"id": f"ch_{charge}", "cents": cents}, {} if made else {"Idempotent-Replayed": "true"})

    def do_GET(self) -> None:
        with closing(self.connection_to_database()) as connection:
            rows = connection.execute("select id, customer, cents from charges order by id").fetchall()
        self.answer(200, [{"id": f"ch_{charge}", "customer": who, "cents": cents} for charge, who, cents in rows])

    def connection_to_database(self) -> sqlite3.Connection:
        return sqlite3.connect(self.database)

    def answer(self, status: int, body: Any, headers: dict[str, str] | None = None) -> None:
        data = json.dumps(body).encode()
        self.send_response(status)
        for name, value in {**(headers or {}), "Content-Length": str(len(data))}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, format: str, *args: Any) -> None:
        pass


def serve(database: str, port: int) -> None:
    with closing(sqlite3.connect(database)) as connection:
        connection.execute(TABLE)
    handler = type("Handler", (Payments,), {"database": database})
    with ThreadingHTTPServer(("127.0.0.1", port), handler) as server:
        print(f"http://127.0.0.1:{server.server_address[1]}", flush=True)
        server.serve_forever()


if __name__ == "__main__":
    serve(sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 0)
