"""The payment agent: a real HTTP server with its database, and a process that is killed before it has its receipt."""

from __future__ import annotations

import json
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from demo.scenes import EXAMPLES
from examples.held import HeldAnswers
from examples.programs import environment, run
from midstride.testing import Answer, FakeModel, calls

INVOICES = [
    {"invoice": "2026-117", "customer": "Aalto Rowing Club", "cents": 4_200},
    {"invoice": "2026-118", "customer": "Bistro Pomona", "cents": 12_950},
]
CHARGED = [{"id": f"ch_{n}", "customer": i["customer"], "cents": i["cents"]} for n, i in enumerate(INVOICES, 1)]
SCRIPT = [calls(("list_invoices", {})), calls(*(("charge", invoice) for invoice in INVOICES)), Answer("Both charged.")]


@pytest.fixture
def api(tmp_path: Path) -> Iterator[str]:
    """Run the payment API of the example, and return its address."""
    command = [sys.executable, EXAMPLES / "payment_server.py", tmp_path / "payments.db"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        yield server.stdout.readline().strip()
        server.terminate()


def charges(api: str) -> Any:
    with urllib.request.urlopen(f"{api}/charges") as answer:
        return json.load(answer)


def test_each_invoice_is_charged_once(api: str, tmp_path: Path) -> None:
    with FakeModel(SCRIPT) as model:
        found = environment(model, tmp_path, PAYMENTS_URL=api)
        assert run("payments.py", "week", environment=found) == "Both charged.\n"
        assert run("payments.py", "week", environment=found) == "Both charged.\n"
    assert charges(api) == CHARGED


def test_a_process_that_is_killed_before_its_receipt_charges_no_second_time(api: str, tmp_path: Path) -> None:
    with FakeModel(SCRIPT) as model, HeldAnswers(int(api.rpartition(":")[2])) as between:
        found = environment(model, tmp_path, PAYMENTS_URL=between.url)
        with subprocess.Popen([sys.executable, EXAMPLES / "payments.py", "week"], env=found) as process:
            assert between.answered.wait(60)
            process.kill()
        assert charges(api) == CHARGED[:1]
        between.held = False
        assert run("payments.py", "week", environment=found) == "Both charged.\n"
        told = [block["content"] for block in model.requests[-1]["messages"][-1]["content"]]
    assert charges(api) == CHARGED
    assert told == [
        "Charged 4200 cents to Aalto Rowing Club, ch_1 (already done)",
        "Charged 12950 cents to Bistro Pomona, ch_2",
    ]


def test_the_api_refuses_a_charge_without_a_key_and_a_key_for_two_charges(api: str) -> None:
    def charge(body: Any, **headers: str) -> int:
        request = urllib.request.Request(f"{api}/charges", json.dumps(body).encode(), headers)
        try:
            with urllib.request.urlopen(request) as answer:
                return int(answer.status)
        except urllib.error.HTTPError as error:
            with error:
                return error.code

    first = {"customer": "a", "cents": 1}
    assert charge(first) == 400
    assert charge(first, **{"Idempotency-Key": "k"}) == 201
    assert charge(first, **{"Idempotency-Key": "k"}) == 201
    assert charge({**first, "cents": 2}, **{"Idempotency-Key": "k"}) == 422
    assert charges(api) == [{"id": "ch_1", **first}]
