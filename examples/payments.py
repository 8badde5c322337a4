"""An agent that charges open invoices over a payment API. Killed between a charge and its receipt? Run it again.

    python examples/payment_server.py payments.db 8321
    PAYMENTS_URL=http://127.0.0.1:8321 python examples/payments.py [RUN_ID]

The API drops a repeated Idempotency-Key, so the tool is idempotent: after a crash it is called again with the key that
the first attempt had, and the customer is charged once. The key of the model's API is in ANTHROPIC_API_KEY.
"""

import csv
import json
import os
import sys
import urllib.error
import urllib.request
from pathlib import Path

from midstride import Agent, Context, DidNotHappen, models, tool

URL = os.environ.get("PAYMENTS_URL", "http://127.0.0.1:8321")
INVOICES = Path(os.environ.get("PAYMENTS_INVOICES") or Path(__file__).parent / "invoices.csv")
TASK = "Charge every open invoice to its customer, each once, and say what was charged and what was not."


@tool.read_only
def list_invoices() -> list[dict[str, str]]:
    """List the open invoices: invoice, customer, cents."""
    with INVOICES.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


# The API keeps a key for a day. Two charges for one invoice are the same deed, also when the model asks anew.
@tool.idempotent(key_life=24 * 3600, timeout=30, key=lambda invoice: invoice)
def charge(invoice: str, customer: str, cents: int, context: Context) -> str:
    """Charge a customer for an invoice, in cents."""
    body = json.dumps({"customer": customer, "cents": cents}).encode()
    headers = {"Content-Type": "application/json", "Idempotency-Key": context.key}
    request = urllib.request.Request(f"{URL}/charges", body, headers)
    try:
        with urllib.request.urlopen(request, timeout=25) as answer:
            receipt = json.load(answer)
            repeated = answer.headers.get("Idempotent-Replayed") == "true"
    except urllib.error.HTTPError as error:
        with error:
            if error.code < 500:  # a clear no; what a 5xx did nobody knows, so it is asked again with the same key
                raise DidNotHappen(f"The charge was refused ({error.code}): {error.read().decode()}") from error
        raise
    except urllib.error.URLError as error:
        if isinstance(error.reason, ConnectionRefusedError):
            raise DidNotHappen(f"The payment API cannot be reached: {error.reason}") from error
        raise
    return f"Charged {receipt['cents']} cents to {customer}, {receipt['id']}{' (already done)' if repeated else ''}"


agent = Agent(
    models.Anthropic("claude-sonnet-5-5"),
    tools=[list_invoices, charge],
    system="You do the bookkeeping of a small shop. Never charge twice; say plainly what you do not know.",
)

if __name__ == "__main__":
    result = agent.run(TASK, id=sys.argv[1] if len(sys.argv) > 1 else "invoices-2026-W48")
    print(result.answer or f"{result.status}: {result.why}")
