"""An encrypted store: the suite, what its files tell without the key, and what came of a key that is not there."""

import base64
import hashlib
import os
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from midstride import Agent, Context, Ledger, Runs, models, tool
from midstride.core.journal import Requested, Said, head_of, seal
from midstride.errors import Claimed, Damaged, DeclarationError, KeyMissing, NotOurs, StoreError
from midstride.stores import AesGcm, CheckpointStore, Claim, SqliteStore, open_store
from midstride.testing.conformance import AT, add, append_claiming, begin, kinds, store_conformance

OLD, NEW, OTHER = (hashlib.sha256(word).digest() for word in (b"old", b"new", b"other"))
IDS = {key: hashlib.sha256(b"midstride key " + key).hexdigest()[:8] for key in (OLD, NEW, OTHER)}

CHECKS = store_conformance(lambda folder: SqliteStore(folder / "runs.db", codec=AesGcm(OLD)))


@pytest.mark.parametrize("check", CHECKS, ids=str)
def test_an_encrypted_store_keeps_every_promise(check, tmp_path):
    check(tmp_path)


@pytest.fixture
def path(tmp_path):
    return tmp_path / "runs.db"


@pytest.fixture
def opened(path):
    """Opens the store with these keys, or with none."""
    stores = []

    def open_with(*keys):
        stores.append(SqliteStore(path, codec=AesGcm(keys) if keys else None))
        return stores[-1]

    yield open_with
    for store in stores:
        store.close()


def change(path, *statements):
    with closing(sqlite3.connect(path)) as connection, connection:
        for statement in statements:
            connection.execute(*statement) if isinstance(statement, tuple) else connection.execute(statement)


def ask(path, statement):
    with closing(sqlite3.connect(path)) as connection:
        return connection.execute(statement).fetchall()


def raw(folder):
    """Return the bytes of every file in *folder*, and every name."""
    files = [path for path in sorted(folder.rglob("*")) if path.is_file()]
    return b"\n".join(str(path).encode() + b"\n" + path.read_bytes() for path in files)


# ---- what lies on disk

SECRETS = (
    "task-marker",
    "prompt-marker",
    "argument-marker",
    "result-marker",
    "word-marker",
    "deed-marker",
    "whole-marker",
)


def work(store):
    """Do all that leaves something in a store; every text of it has a marker."""

    @tool
    def send(to: str) -> str:
        return "result-marker"

    @tool.read_only
    def read(name: str) -> str:
        return "whole-marker " * 20_000

    @tool.transactional
    def book(seat: str, context: Context) -> str:
        return "result-marker booked"

    @tool(key=lambda to: to)
    def mail(to: str) -> str:
        return "result-marker"

    script = [
        [("send", {"to": "argument-marker"}), ("read", {"name": "argument-marker"})],
        [("book", {"seat": "argument-marker"})],
        "Done: word-marker.",
    ]
    agent = Agent(models.Scripted(script), [send, read, book], "prompt-marker", store=store)
    assert agent.run("task-marker", "run").status == "done"
    Runs(store).say("run", "word-marker", by="word-marker")
    ledger = Ledger(store)
    assert ledger.once(mail, "c1", {"to": "deed-marker"}, scope="t") == "result-marker"
    assert ledger.once(mail, "c2", {"to": "deed-marker"}, scope="t").startswith("Already done")


def hash_of_the_deed(store):
    return store.read("t/c1")[3].body.calls[0].key


def test_nothing_that_was_said_or_done_stands_in_any_file(tmp_path, opened):
    store = opened(OLD)
    work(store)
    deed = hash_of_the_deed(store)
    lying = raw(tmp_path)  # with the -wal, as a crash would leave it
    store.close()
    for found in (lying, raw(tmp_path)):
        assert [word for word in (*SECRETS, deed, deed.upper()) if word.encode() in found] == []
        assert bytes.fromhex(deed) not in found
        assert OLD not in found
        assert b"t/c1" in found  # ids of runs stay readable


def test_without_a_codec_all_of_it_does(tmp_path, opened):
    store = opened()
    work(store)
    deed = hash_of_the_deed(store)
    assert [word for word in (*SECRETS, deed) if word.encode() not in raw(tmp_path)] == []


def test_the_same_line_is_never_stored_twice_alike(path, opened):
    for run_id in ("one", "two"):
        begin(opened(OLD), run_id)
    bodies = [body for (body,) in ask(path, "select body from midstride_entries")]
    assert len({body[20:] for body in bodies}) == len({body[6:18] for body in bodies}) == 6


def test_a_store_without_a_codec_is_stored_as_it_always_was(path, opened):
    store = opened()
    begin(store)
    entries = store.read("run")
    assert ask(path, "select typeof(body), body, digest from midstride_entries") == [
        ("text", entry.text, bytes.fromhex(entry.digest)) for entry in entries
    ]
    assert ask(path, "select 1 from sqlite_master where name = 'midstride_secret'") == []


def test_what_a_reader_gets_is_the_same_with_a_codec_and_without(tmp_path):
    read = []
    for name, codec in (("plain", None), ("encrypted", AesGcm(OLD))):
        with closing(SqliteStore(tmp_path / name, codec=codec)) as store:
            head = begin(store)
            add(store, head, Said("é\ud800 \0"), token=1)
            read.append([store.read("run", after) for after in range(6)])
    assert read[0] == read[1]


# ---- a key that is not there


def test_without_a_key_a_store_is_neither_read_nor_written_and_that_is_said(tmp_path, opened):
    store = opened(OLD)
    begin(store)
    store.close()
    before = raw(tmp_path)
    store = opened()
    for way in (lambda: store.read("run"), lambda: store.read("run", 2), lambda: begin(store, "another")):
        with pytest.raises(
            KeyMissing, match=f"is encrypted with key {IDS[OLD]}, and no key is given: set MIDSTRIDE_KEY"
        ):
            way()
    with pytest.raises(KeyMissing), store.transaction("run"):
        raise AssertionError("the tool was started")
    assert (store.runs(), store.unfinished(), store.check()) == (["run"], ["run"], [])
    assert store.read("another") == []
    store.close()
    assert raw(tmp_path) == before


def test_another_key_is_named_and_so_is_the_one_that_is_wanted(opened):
    begin(opened(OLD))
    wanted = f"is encrypted with key {IDS[OLD]}, and AesGcm has {IDS[OTHER]}, {IDS[NEW]}: put that key behind those"
    with pytest.raises(KeyMissing, match=wanted) as caught:
        opened(OTHER, NEW).read("run")
    assert (caught.value.key_id, caught.value.entries) == (IDS[OLD], 3)
    with pytest.raises(KeyMissing, match=f"{IDS[OLD]}"):
        begin(opened(OTHER), "another")


def test_who_holds_a_run_is_told_without_the_key(opened):
    store = opened(OLD)
    begin(store)
    lease = store.lease("run")
    assert opened().holder("run").pid == os.getpid()
    lease.release()


def test_verify_checks_the_stored_chain_without_the_key(path, opened):
    head = begin(opened(OLD))
    for _ in range(3):
        head = add(opened(OLD), head, Said("word"), token=1)
    for keys in ((), (OTHER,)):
        verdict = Runs(opened(*keys)).verify("run")
        assert (verdict.entries, verdict.damage, verdict.sealed) == (6, None, True)
    assert Runs(opened(OLD)).verify("run").sealed is False
    change(path, "update midstride_entries set body = cast(body || x'00' as blob) where seq = 5")
    for keys in ((), (OLD,)):
        verdict = Runs(opened(*keys)).verify("run")
        assert "entry 5 is not as it was written (its digest differs)" in verdict.damage
    change(path, "delete from midstride_entries where seq >= 5")
    assert Runs(opened()).verify("run").entries == 4
    change(path, "delete from midstride_entries where seq = 3")
    assert "entry 3 is missing" in Runs(opened()).verify("run").damage


def test_verify_says_without_the_key_that_the_newest_entries_are_hidden(path, opened):
    """As behind a damaged index: the run's rows end before the newest row of the table."""
    head = begin(opened(OLD))
    add(opened(OLD), head, Said("word"), token=1)
    with closing(sqlite3.connect(path)) as connection:
        (page,) = connection.execute(
            "select rootpage from sqlite_master where name = 'sqlite_autoindex_midstride_entries_1'"
        ).fetchone()
        connection.execute("pragma wal_checkpoint(truncate)")
    with open(path, "r+b") as file:
        file.seek((page - 1) * 16384 + 3)
        assert file.read(2) == b"\x00\x04"
        file.seek((page - 1) * 16384 + 3)
        file.write(b"\x00\x03")
    assert "entry 4 is missing, and 4 is there" in Runs(opened()).verify("run").damage


# ---- somebody who may write the file


def relink(path, run=1):
    """Compute the stored digests of a run anew, as whoever changes bodies could."""
    digest = b""
    for seq, body in ask(path, f"select seq, cast(body as blob) from midstride_entries where run = {run} order by seq"):
        digest = hashlib.sha256(digest.hex().encode() + body).digest()
        change(path, ("update midstride_entries set digest = ? where run = ? and seq = ?", (digest, run, seq)))


def bodies(path):
    return {(run, seq): body for run, seq, body in ask(path, "select run, seq, body from midstride_entries")}


@pytest.mark.parametrize(("one", "other"), [((1, 3), (1, 4)), ((1, 4), (2, 4))], ids=["in a run", "between runs"])
def test_bodies_that_change_places_do_not_open(path, opened, one, other):
    for run_id in ("one", "two"):
        add(opened(OLD), begin(opened(OLD), run_id), Said(f"to {run_id}"), token=1, run_id=run_id)
    stored = bodies(path)
    for place, body in ((one, stored[other]), (other, stored[one])):
        change(path, ("update midstride_entries set body = ? where run = ? and seq = ?", (body, *place)))
    relink(path, 1), relink(path, 2)
    with pytest.raises(
        Damaged, match=f"entry {one[1]} is not as it was written .it does not open with its key, {IDS[OLD]}"
    ) as caught:
        opened(OLD).read("one")
    assert len(caught.value.whole) == one[1] - 1


def test_a_body_of_another_journal_of_the_same_id_does_not_follow(tmp_path, path, opened):
    """It opens, since run and number are the same: the chain inside tells."""
    with closing(SqliteStore(tmp_path / "other.db", codec=AesGcm(OLD))) as other:
        head = begin(other, task="another task")
        add(other, head, Said("pay"), token=1)
    add(opened(OLD), begin(opened(OLD)), Said("wait"), token=1)
    body = bodies(tmp_path / "other.db")[1, 4]
    change(path, ("update midstride_entries set body = ? where seq = 4", (body,)))
    relink(path)
    with pytest.raises(Damaged, match=r"entry 4 is not as it was written \(its digest differs\)"):
        opened(OLD).read("run")


def test_a_line_in_plain_text_behind_an_encoded_one_is_refused(path, opened):
    store = opened(OLD)
    head = begin(store)
    (entry,) = seal([Said("pay him")], head, AT)
    change(
        path,
        (
            "insert into midstride_entries (run, seq, body, digest) values (1, 4, ?, ?)",
            (entry.text, bytes.fromhex(entry.digest)),
        ),
    )
    for after in (0, 3):
        with pytest.raises(Damaged, match="entry 4 is not encrypted, and the one before it is"):
            store.read("run", after)


@pytest.mark.parametrize("body", [b"", b"\x01", b"\x01\xa1", b"\x01\xa1abcd", b"\x02" * 80, b'{"seq":1}'])
def test_what_is_no_body_is_damage_and_no_missing_key(path, opened, body):
    begin(opened(OLD))
    change(path, ("update midstride_entries set body = ? where seq = 1", (body,)))
    relink(path)
    with pytest.raises(Damaged, match="entry 1 is not as it was written"):
        opened(OLD).read("run")


def test_a_line_that_was_flipped_into_a_blob_is_damage(path, opened):
    begin(opened())
    change(path, "update midstride_entries set body = cast(body as blob) where seq = 2")
    for keys in ((), (OLD,)):
        with pytest.raises(Damaged, match="entry 2 is not as it was written"):
            opened(*keys).read("run")


# ---- a store that was plain before


def test_a_plain_store_goes_on_encrypted(tmp_path, path, opened):
    plain = opened()
    head = add(plain, begin(plain), Said("before"), token=1)
    begin(plain, "old")
    plain.close()
    store = opened(OLD)
    head = add(store, head, Said("behind-marker"), token=1)
    assert kinds(store) == ["started", "taken", "requested", "said", "said"]
    assert [entry.seq for entry in store.read("run", 4)] == [5]
    assert kinds(store, "old") == ["started", "taken", "requested"]
    assert [kind for (kind,) in ask(path, "select typeof(body) from midstride_entries order by run, seq")] == [
        *["text"] * 4, "blob", *["text"] * 3,
    ]  # fmt: skip
    assert b"behind-marker" not in raw(tmp_path)
    without = opened()
    assert kinds(without, "old") == ["started", "taken", "requested"]  # these need no key
    with pytest.raises(KeyMissing, match="entry 5: it is encrypted") as caught:
        without.read("run")
    assert caught.value.entries == 5
    with pytest.raises(KeyMissing, match="is not written to"):
        begin(without, "new")


def test_reading_with_a_key_encrypts_nothing(path, opened):
    begin(opened())
    store = opened(OLD)
    assert (kinds(store), store.runs()) == (["started", "taken", "requested"], ["run"])
    begin(opened(), "still plain")


def test_business_keys_that_were_claimed_in_plain_text_still_count(path, opened):
    plain = opened()
    append_claiming(plain, begin(plain, "one"), Requested(), run_id="one", claim=Claim("k"))
    store = opened(OLD)
    with pytest.raises(Claimed) as caught:
        append_claiming(store, begin(store, "two"), Requested(), run_id="two", claim=Claim("k"))
    assert caught.value.owner == "one"
    assert ("k",) not in ask(path, "select key from midstride_claims")


def test_a_program_that_has_the_store_open_in_plain_text_writes_nothing_any_more(opened):
    plain = opened()
    head = begin(plain, "one")
    begin(opened(OLD), "two")
    with pytest.raises(KeyMissing, match="the store was encrypted since"):
        append_claiming(plain, head, Requested(), run_id="one", claim=Claim("k"))
    with pytest.raises(KeyMissing, match="the store was encrypted since"), plain.transaction("one") as transaction:
        transaction.append(seal([Said("booked")], head, AT), token=1)
    with pytest.raises(KeyMissing, match="the store was encrypted since"):
        plain.keep("run", b"whole")
    assert len(plain.read("one")) == 3


def test_a_tool_writes_in_one_transaction_with_encrypted_entries(path, opened):
    change(path, "create table seats (seat)")
    path.chmod(0o600)
    store = opened(OLD)
    head = begin(store)
    with store.transaction("run") as transaction:
        transaction.connection.execute("insert into seats values ('1a')")
        entries = seal([Said("booked")], head, AT)
        transaction.append(entries, token=1)
    assert store.read("run", 3) == list(entries)
    assert ask(path, "select seat from seats") == [("1a",)]
    assert ask(path, "select typeof(body) from midstride_entries where seq = 4") == [("blob",)]


# ---- rotation


def test_new_entries_get_the_new_key_and_old_ones_are_read_with_the_old(opened):
    head = begin(opened(OLD))
    rotated = opened(NEW, OLD)
    head = add(rotated, head, Said("new"), token=1)
    assert len(rotated.read("run")) == 4
    assert len(opened(OLD, NEW).read("run")) == 4
    assert [entry.seq for entry in opened(NEW).read("run", 4)] == []
    for keys, missing, seq in (((NEW,), OLD, 1), ((OLD,), NEW, 4)):
        with pytest.raises(KeyMissing, match=f"entry {seq}: it is encrypted with key {IDS[missing]}") as caught:
            opened(*keys).read("run")
        assert caught.value.entries == 4


def test_a_claim_outlives_every_key(opened):
    append_claiming(opened(OLD), begin(opened(OLD), "one"), Requested(), run_id="one", claim=Claim("k"))
    begin(opened(NEW, OLD), "two")  # writes once with the new key
    store = opened(NEW)  # the old one is gone
    head = begin(store, "three")
    with pytest.raises(Claimed) as caught:
        append_claiming(store, head, Requested(), run_id="three", claim=Claim("k"))
    assert caught.value.owner == "one"
    with pytest.raises(KeyMissing, match=IDS[NEW]):
        begin(opened(OLD), "four")


def test_the_same_first_key_writes_nothing_anew(path, opened):
    begin(opened(OLD))
    secret = ask(path, "select body from midstride_secret")
    begin(opened(OLD, NEW), "two")
    assert ask(path, "select body from midstride_secret") == secret
    begin(opened(NEW, OLD), "three")
    assert ask(path, "select body from midstride_secret") != secret


def test_a_callable_is_asked_at_the_first_use_and_when_a_key_is_missing(path):
    keys, asked = [OLD], []

    def ask_for_keys():
        asked.append(tuple(keys))
        return list(keys)

    codec = AesGcm(ask_for_keys)
    assert asked == []
    with (
        closing(SqliteStore(path, codec=codec)) as store,
        closing(SqliteStore(path, codec=AesGcm([NEW, OLD]))) as other,
    ):
        head = begin(store)
        add(other, head, Said("by the other"), token=None)
        assert len(asked) == 1
        keys[:] = [NEW, OLD]  # somebody has rotated them
        assert len(store.read("run")) == 4
        assert len(store.read("run")) == 4
        assert len(asked) == 2


# ---- the secret


def test_a_secret_that_is_missing_or_damaged_is_no_fresh_start(path, opened):
    begin(opened(OLD))
    (stored,) = ask(path, "select body from midstride_secret")[0]
    change(path, ("update midstride_secret set body = ?", (stored[:-1] + bytes([stored[-1] ^ 1]),)))
    with pytest.raises(Damaged, match="midstride_secret: it does not open with its key"):
        begin(opened(OLD), "another")
    change(path, "delete from midstride_secret")
    with pytest.raises(Damaged, match="midstride_secret is empty"):
        begin(opened(OLD), "another")
    change(path, "drop table midstride_secret")
    with pytest.raises(Damaged, match="it is encrypted, and midstride_secret is missing"):
        begin(opened(OLD), "another")
    assert len(opened(OLD).read("run")) == 3


def test_a_table_of_that_name_that_is_not_ours_is_refused(path, opened):
    begin(opened())
    change(path, "create table midstride_secret (body text)")
    with pytest.raises(NotOurs, match="midstride_secret"):
        opened(OLD).read("run")


# ---- whole results


def test_a_whole_result_is_encrypted_and_given_back(tmp_path, opened):
    store = opened(OLD)
    where = store.keep("run", b"whole-marker")
    assert (store.kept(where), store.keep("run", b"whole-marker")) == (b"whole-marker", where)
    assert (where.endswith(".encrypted"), b"whole-marker" in raw(tmp_path)) == (True, False)
    assert hashlib.sha256(b"whole-marker").hexdigest()[:32] not in where
    with pytest.raises(KeyMissing, match="no key is given"):
        opened().kept(where)
    assert opened(NEW, OLD).kept(where) == b"whole-marker"


def test_a_whole_result_that_was_kept_in_plain_text_is_still_given(opened):
    where = opened().keep("run", b"\x01\xa1 kept")
    assert opened(OLD).kept(where) == b"\x01\xa1 kept"


def test_a_whole_result_that_was_moved_or_changed_is_damage(opened):
    store = opened(OLD)
    one, other = Path(store.keep("run", b"one")), Path(store.keep("run", b"other"))
    other.write_bytes(one.read_bytes())
    with pytest.raises(Damaged, match=r"is damaged \(it does not open"):
        store.kept(str(other))
    other.write_bytes(b"")
    with pytest.raises(Damaged, match=r"is damaged \(it is not encoded"):
        store.kept(str(other))


@pytest.mark.parametrize("keys", [(), (OLD,)])
def test_results_are_found_when_the_store_was_moved_and_nothing_else_is(tmp_path, opened, keys):
    store = opened(*keys)
    where = store.keep("run", b"whole")
    name = where.rpartition(".results/")[2]
    assert store.kept(f"/was/elsewhere/runs.db.results/{name}") == b"whole"
    (tmp_path / "outside").write_text("no business of the store's")
    (tmp_path / "runs.db.results" / "link").symlink_to(tmp_path / "outside")
    for place in (
        "/etc/passwd", str(tmp_path / "outside"), "../outside", f"{tmp_path}/runs.db.results/../outside", "",
        "runs.db.results//etc/passwd", f"{tmp_path}/runs.db.results/link", "a\0b", ".", "x" * 5000,
    ):  # fmt: skip
        with pytest.raises(StoreError):
            store.kept(place)


def test_a_checkpoint_gives_its_whole_results_too(tmp_path):
    with closing(CheckpointStore(tmp_path / "checkpoint.json")) as store:
        assert store.kept(store.keep("run", b"whole")) == b"whole"


# ---- keys as they are given


@pytest.mark.parametrize(
    "key",
    [
        OLD,
        OLD.hex(),
        OLD.hex().upper(),
        base64.b64encode(OLD).decode(),
        base64.urlsafe_b64encode(OLD).decode(),
        base64.b64encode(OLD).decode().rstrip("="),
        f" {OLD.hex()}\n",
        [OLD],
        f"{OLD.hex()}, {NEW.hex()}",
        [OLD.hex(), NEW],
        lambda: OLD.hex(),
    ],
)
def test_a_key_is_given_in_any_usual_form(key):
    data = AesGcm(key).encode(b"data", b"about")
    assert AesGcm(OLD).decode(data, b"about") == b"data"
    assert AesGcm([NEW, OLD]).decode(data, b"about") == b"data"


SECRET_WORD = "hunter2-is-no-key"


@pytest.mark.parametrize(
    "key",
    [
        "",
        " ",
        [],
        SECRET_WORD,
        f"{OLD.hex()},",
        f"{OLD.hex()},{SECRET_WORD}",
        OLD[:16],
        OLD.hex()[:-1],
        "g" * 64,
        "é" * 43,
        7,
        [None],
    ],
)
def test_what_is_no_key_is_refused_and_not_shown(key):
    with pytest.raises(DeclarationError, match="AesGcm") as caught:
        AesGcm(key)
    assert SECRET_WORD not in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_codec_does_not_show_its_keys():
    codec = AesGcm([OLD, NEW])
    assert repr(codec) == f"AesGcm({IDS[OLD]}, {IDS[NEW]})"
    assert repr(AesGcm(lambda: OLD)) == "AesGcm(not asked for its keys yet)"


# ---- by the environment


def test_the_environment_gives_the_keys_of_a_store_that_is_opened_by_its_url(monkeypatch, path, opened):
    monkeypatch.setenv("MIDSTRIDE_KEY", f"{OLD.hex()},{NEW.hex()}")
    with closing(open_store(f"sqlite:{path}")) as store:
        begin(store)
    assert kinds(opened(OLD)) == ["started", "taken", "requested"]
    monkeypatch.setenv("MIDSTRIDE_KEY", OTHER.hex())
    with closing(open_store(f"sqlite:{path}")) as store, pytest.raises(KeyMissing, match="and MIDSTRIDE_KEY has"):
        store.read("run")


@pytest.mark.parametrize("value", ["", "garbage"])
def test_an_empty_or_wrong_variable_is_refused(monkeypatch, path, value):
    monkeypatch.setenv("MIDSTRIDE_KEY", value)
    with pytest.raises(DeclarationError, match="key 1 of 1 in MIDSTRIDE_KEY is no key"):
        open_store(f"sqlite:{path}")


def test_a_checkpoint_is_refused_where_the_environment_asks_for_encryption(monkeypatch, tmp_path):
    monkeypatch.setenv("MIDSTRIDE_KEY", OLD.hex())
    with pytest.raises(DeclarationError, match="is plain text, and MIDSTRIDE_KEY asks for an encrypted store"):
        open_store(f"checkpoint:{tmp_path / 'checkpoint.json'}")
    open_store("memory:").close()


def test_a_codec_of_ones_own_is_used_as_it_is(path):
    class Reversing:
        def encode(self, data, about):
            return (about + data)[::-1]

        def decode(self, data, about):
            return data[::-1].removeprefix(about)

        def is_current(self, data):
            return True

    with closing(SqliteStore(path, codec=Reversing())) as store:
        add(store, begin(store), Said("word"), token=1)
        assert head_of(store.read("run")).seq == 4
    with closing(SqliteStore(path)) as store, pytest.raises(KeyMissing, match="is encrypted, and no key is given"):
        store.read("run")
