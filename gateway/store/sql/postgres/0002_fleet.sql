-- Which gateway does what has to be done once for all of them, and until when it may.
CREATE TABLE keeper (
    name     text PRIMARY KEY,
    instance text NOT NULL,
    until_ms bigint NOT NULL
);
