"""What is found, in whatever it is wrapped; what is left alone; and that no text takes long."""

import base64
import hashlib
import json
import random
import re
import string
import time
import uuid

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hidden.samples import PRIVATE_KEY, SECRETS
from midstride.hidden import Redactor, redacted

# ---- what is found


@pytest.mark.parametrize(("name", "text", "secret"), SECRETS, ids=[name for name, _, _ in SECRETS])
def test_a_secret_is_replaced_by_its_name(name, text, secret):
    shown = redacted(f"before\n{text}\nafter")
    assert f"[redacted: {name}]" in shown
    assert_no_part_of(secret, shown)
    assert (shown.startswith("before\n"), shown.endswith("\nafter")) == (True, True)


@pytest.mark.parametrize("depth", [1, 2, 3])
@pytest.mark.parametrize(("name", "text", "secret"), SECRETS, ids=[name for name, _, _ in SECRETS])
def test_a_secret_is_found_in_json_in_json(name, text, secret, depth):
    whole = f"before\n{text}\nafter"
    for _ in range(depth):
        whole = json.dumps({"output": whole})
    for wrapped in (whole, f"it said {whole} and more", whole[:-1]):
        shown = redacted(wrapped)
        assert "[redacted: " in shown
        assert_no_part_of(secret, shown)
        assert "before" in shown


@pytest.mark.parametrize(("name", "text", "secret"), SECRETS, ids=[name for name, _, _ in SECRETS])
def test_a_secret_is_found_wherever_it_stands_in_a_value(name, text, secret):
    shown = json.dumps(redacted({"a": [1, {"b": (text, None)}], text: True}))
    assert_no_part_of(secret, shown)
    assert shown.count("[redacted: ") >= 2


@pytest.mark.parametrize(("name", "text", "secret"), SECRETS, ids=[name for name, _, _ in SECRETS])
def test_redacting_twice_is_redacting_once(name, text, secret):
    for one in (text, json.dumps(text), json.dumps({"x": text}), f"password={text}", f"Authorization: {text}"):
        assert redacted(redacted(one)) == redacted(one)


@pytest.mark.parametrize(
    "text", ["password=PASSWORD: swordfish", 'token: DB_PASSWORD="sword fish"', "secret=key:api_key= swordfish"]
)
def test_a_value_that_looks_like_a_field_takes_that_fields_value_along(text):
    assert "fish" not in redacted(text)


def assert_no_part_of(secret, shown):
    parts = re.split(r"[\s\\]+|-----", secret)
    for part in parts:
        assert part[-6:] not in shown.replace("[redacted: ", "[") or not part, shown


FIELDS = [
    "password",
    "DB_PASSWORD",
    "dbPassword",
    "passwd",
    "passphrase",
    "client_secret",
    "secrets",
    "token",
    "accessToken",
    "x-api-key",
    "apiKey",
    "API_KEY",
    "AWS_SECRET_ACCESS_KEY",
    "private_key",
    "credentials",
    "Authorization",
    "proxy-authorization",
    "Set-Cookie",
    "pass",
]


@pytest.mark.parametrize("field", FIELDS)
@pytest.mark.parametrize("value", ["x", 'a "quoted" \\ one', ["a"], {"b": "c"}])
def test_a_field_that_is_called_so_is_hidden_whole(field, value):
    shown = redacted({"outer": {field: value, "rest": value}})
    assert shown["outer"][field].startswith("[redacted: ")
    assert shown["outer"]["rest"] == value
    assert json.loads(redacted(json.dumps({field: value})))[field].startswith("[redacted: ")


@pytest.mark.parametrize("field", FIELDS[:-3])
def test_a_field_is_hidden_in_the_text_of_json_that_was_cut(field):
    for value in ('"hun\\"ter2"', '{"a": "hunter2", "b": [1]}', "777123456789"):
        text = f'call({{"user": "bob", "{field}": {value}'
        for cut in (text, text + ', "more": "tex', text[:-3]):
            shown = redacted(cut)
            assert "[redacted: " in shown
            assert "bob" in shown
            assert not re.search("hun|ter2|777", shown)


def test_pairs_and_arguments_of_a_command_are_hidden():
    assert redacted({"env": [{"name": "DB_PASSWORD", "value": "hunter2"}, {"name": "HOME", "value": "/root"}]}) == {
        "env": [{"name": "DB_PASSWORD", "value": "[redacted: password]"}, {"name": "HOME", "value": "/root"}]
    }
    assert redacted(["mysql", "--password", "hunter2", "--host", "db"]) == [
        "mysql", "--password", "[redacted: password]", "--host", "db",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("cut", "shown"),
    [
        ("key sk-ant-api03-Qx...", "key [redacted: anthropic key]..."),
        ("key sk-Qx1Qx2Qx3...", "key [redacted: openai key]..."),
        ("db://bob:hunt...", "db://bob:[redacted: url password]..."),
        ("AKIAQX12...", "[redacted: aws key]..."),
        ("eyJhbGciOiJIUzI1...", "[redacted: jwt]..."),
        ('{"password": "hunt...) (asking doubt)', '{"password": "[redacted: password]'),
        ("-----BEGIN PRIVATE KEY-----\nMIIB\nabc...", "[redacted: private key]..."),
    ],
)
def test_a_secret_that_was_cut_before_is_found_by_its_beginning(cut, shown):
    assert redacted(cut) == shown


def test_numbers_are_hidden_under_a_password_and_are_counts_under_a_token():
    assert redacted({"password": 1234, "token": 7, "secret": True, "api_key": None, "credentials": ""}) == {
        "password": "[redacted: password]", "token": 7, "secret": True, "api_key": None, "credentials": "",
    }  # fmt: skip


# ---- what is left alone


def other_texts():
    """Yield texts without a secret in them."""
    random.seed(7)
    yield hashlib.sha1(b"commit").hexdigest()
    yield (
        f"commit {hashlib.sha1(b'x').hexdigest()}\nAuthor: Ann <ann@example.com>\nDate: Mon Nov 30 2026\n\n    Fix it"
    )
    yield hashlib.sha256(b"digest").hexdigest()
    yield f"sha256:{hashlib.sha256(b'image').hexdigest()}"
    yield "sha512-" + base64.b64encode(hashlib.sha512(b"lock").digest()).decode()
    yield str(uuid.UUID(int=random.getrandbits(128)))
    yield (
        f"idempotency key {uuid.UUID(int=random.getrandbits(128))}, Idempotency-Key: {hashlib.sha256(b'k').hexdigest()}"
    )
    yield base64.b64encode(random.randbytes(200_000)).decode()
    yield "data:image/png;base64," + base64.b64encode(random.randbytes(3_000)).decode()
    yield "toolu_01A09q90qw90lq917835lq9 call_abc123def456ghi789jkl0 fc_67ccfcdd16748190a91872c75d38539e"
    yield (
        "msg_01XFDUDYJgAACzvnptvVoYEL "
        "resp_67ccd2bed1ec8190b14f964abc0542670bb6a6b452d3795b chatcmpl-B9MBs8CjcvOU2jLn4n570S5qMJKcT"
    )
    yield "run-1f2e3d4c5b6a notes-2026-W48 scope/call_id req_011CSHoEeqs5C35K2UUqR7Fy"
    yield (
        "claude-opus-4-1-20250805 claude-sonnet-4-5 gpt-5.1-codex-mini gpt-4o-2024-08-06 o4-mini text-embedding-3-large"
    )
    yield "max_tokens 4000, tokens: 55, input_tokens=110 output_tokens: 12 token=1 total tokens: 320 max_tokens=64000"
    yield "turn 1 call 0: ok; by pid 812 on host, token 3"
    yield "password: must have 8 characters. The password is wrong. Wrong password. Forgot password? No secret here."
    yield "Missing API key: set OPENAI_API_KEY. Unexpected token: } in line 3. Invalid token. token: expired"
    yield "Bearer tokens are described in RFC 6750, basic authentication in RFC 7617; the bearer of this letter"
    yield (
        "def login(user, password: str, token: str | None = None) -> "
        "Token:\n    token = make_token(user)\n    self.token = token.value"
    )
    yield (
        "password = getpass.getpass()\napi_key = "
        "os.environ['OPENAI_API_KEY']\nif token is None: raise ValueError('no token')"
    )
    yield "next_page_token: CAUQAA12345 pad_token=<pad> tokenizer=cl100k secretary: Bob password_hint: 'the dog'"
    yield "${{ secrets.GITHUB_TOKEN }} token: ${GITHUB_TOKEN} password=$DB_PASSWORD password: ***"
    yield (
        "https://example.com:8443/@scope/package?page=2#top "
        "postgres://db.internal:5432/app http://user@host/ git@github.com:a/b.git"
    )
    yield (
        "docker run -u 1000:1000 image; PWD=/home/ann pwd=/tmp "
        "OLDPWD=/var/lib; task-1234567890abcdef12 risk-management-2026"
    )
    yield (
        "-----BEGIN CERTIFICATE-----\nMIIB\n-----END "
        "CERTIFICATE-----\n-----BEGIN PUBLIC KEY-----\nMIIB\n-----END PUBLIC KEY-----"
    )
    yield "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIJ ann@host"
    yield "idempotency_key: abc123def primary_key=id7 public_key: x1 sort_key=a1 access_key_id=7 cookie: 12 days old"
    yield "ASIA PACIFIC, ASIAPACIFIC2026, sk-learn, xox, eyJust, [redacted: token]"


TEXTS = list(other_texts())


@pytest.mark.parametrize("text", TEXTS, ids=[text[:20] for text in TEXTS])
def test_what_is_no_secret_stays(text):
    assert redacted(text) == text
    assert json.loads(redacted(json.dumps([text]))) == [text]


def test_counters_and_ids_of_a_response_stay():
    response = {
        "id": "msg_01XFDUDYJgAACzvnptvVoYEL", "model": "claude-opus-5", "stop_reason": "tool_use", "max_tokens": 1024,
        "content": [{"type": "tool_use", "id": "toolu_01A09q90qw90lq917835lq9", "name": "reset_password", "input": {}}],
        "usage": {"input_tokens": 110, "output_tokens": 12, "tokens": 5, "token": 1},
        "tools": [{"name": "login", "input_schema": {"properties": {"password": {"type": "string"}, "token": {}}}}],
    }  # fmt: skip
    assert redacted(response) == response


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=20,
)


@given(JSON)
def test_any_value_comes_back_in_its_form_and_redacting_twice_changes_nothing(value):
    shown = redacted(value)
    assert type(shown) is type(value)
    json.dumps(shown)
    assert redacted(shown) == shown


WORDS = st.sampled_from(
    [
        "password",
        "token",
        "api_key",
        "Authorization",
        "=",
        ": ",
        ":",
        '"',
        "\\",
        "'",
        "\n",
        " ",
        "Bearer ",
        "://",
        "@",
        "a",
        "7",
        "{",
        "}",
        "[",
        "]",
        ",",
        "sk-ant-a",
        "hunter2",
        "-----BEGIN PRIVATE KEY-----",
        "-----END PRIVATE KEY-----",
        "--",
        "...",
        "[redacted: token]",
        "Cookie: ",
        "eyJabcdefgh.",
        ";",
        "&",
    ]
)


@given(st.lists(WORDS, max_size=25).map("".join))
def test_whatever_stands_together_redacting_twice_is_redacting_once(text):
    assert redacted(redacted(text)) == redacted(text)


def test_what_is_nested_too_deep_is_hidden_and_no_error():
    value = "end"
    for _ in range(5_000):
        value = [value]
    assert redacted(value) == "[redacted: nested too deep]"
    assert redacted("[" * 200_000) == "[" * 200_000


# ---- no text takes long


UNITS = [
    "password=",
    'password: "',
    'password=\\"',
    "token=a(",
    "token: a b ",
    "secret:a.b",
    "sk-",
    "sk-a",
    "eyJ",
    "eyJabcdefgh.",
    "%20eyJaaaaaaaa",
    "://a:b",
    "-----BEGIN PRIVATE KEY-----",
    "-----BEGIN PRIVATE KEY-----\na-b: c\n",
    "a-",
    "--a-",
    "--password ",
    "<a",
    "<password>",
    "Authorization: a ",
    "Authorization: Digest",
    "Cookie: a=b;",
    "bearer a",
    "basic a",
    "curl -u a",
    "AKIA",
    "ghp_",
    "api_key=",
    "\\",
    "'",
    '{"password":',
    '["--token",',
    "password=[redacted: x]",
    "a",
    "password....",
]


@pytest.mark.parametrize("unit", UNITS)
def test_a_text_eight_times_as_long_takes_about_eight_times_as_long(unit):
    """And not sixty-four times: between the two there is room for a machine that is busy."""
    short, long = (unit * (size // len(unit)) + "!" for size in (125_000, 1_000_000))
    least = max(seconds_for(short), 0.004)
    assert any(seconds_for(long) < 25 * least for _ in range(2))


def seconds_for(text):
    redactor = Redactor()
    began = time.thread_time()  # not the process's: other tests may have left threads in it
    redactor.text(text)
    return time.thread_time() - began


def test_a_secret_of_any_length_is_taken_whole():
    letters = "".join(random.Random(1).choices(string.ascii_letters, k=300_000))
    assert redacted(f"sk-ant-{letters} end") == "[redacted: anthropic key] end"
    assert redacted(f"password={letters} end") == "password=[redacted: password] end"
    assert redacted(f'"password": "{letters}" end') == '"password": "[redacted: password]" end'
    body = "\n".join(letters[at : at + 64] for at in range(0, len(letters), 64))
    assert redacted(PRIVATE_KEY.replace("MIIEvQIBADAN", body)) == "[redacted: private key]"
