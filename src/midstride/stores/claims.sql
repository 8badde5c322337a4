-- Which run has a business key: the one whose intent was written in the transaction that claimed it. A ledger's call
-- that meets a key looks at that run. It came later than the other tables, so it is made by the first claim.
create table if not exists midstride_claims (
    key text primary key,
    run integer not null references midstride_runs (number)
) strict
