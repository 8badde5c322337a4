-- What midstride keeps in a SQLite database. The database may be the user's own: every name begins with midstride_.

-- One row: the format of these tables. A higher version than the code knows is refused untouched.
create table midstride_format (
    version integer not null
) strict;

insert into midstride_format values (1);

-- A run is known by its id; its number stays the same for ever and names its byte in the lock file. The key is made of
-- the id: found by one index and not by the other, a run is damaged and not new. Ended is the time of the last entry
-- where its writer said that the run is over; without one somebody may have to carry the run on or to look into it.
-- Removed is when the run was removed: what is left is this row, a tombstone, so that nothing begins anew under its id.
create table midstride_runs (
    number integer primary key,
    id text not null unique,
    key integer not null,
    ended real,
    removed real
) strict;

create index midstride_keys on midstride_runs (key);

create index midstride_open on midstride_runs (number) where ended is null;

-- A run's entries in the order of seq, never of time. The body is ASCII text, given back byte for byte, or the blob that
-- a codec made of it; the digest is the 32 bytes themselves. No two entries of a run have one seq: a writer that missed
-- something fails here at the latest.
create table midstride_entries (
    run integer not null references midstride_runs (number),
    seq integer not null,
    token integer,
    body any not null,
    digest blob not null,
    unique (run, seq)
) strict;

-- Only `taken` entries bear a token, so the newest one is found at once however long the journal is.
create index midstride_tokens on midstride_entries (run, seq) where token is not null;
