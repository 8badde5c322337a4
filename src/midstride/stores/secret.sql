-- One row: the secret under which business keys and kept results are found in an encrypted database, encoded as the
-- bodies are. The first writer that has a codec makes it. That it is there says that nothing may be written without one.
create table if not exists midstride_secret (
    body blob not null
) strict
