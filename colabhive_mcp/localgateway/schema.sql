-- The tables of the local gateway. Everything that it serves is derived from these rows and from nothing else.
--
-- Columns named mcp_* hold what an author wrote into a manifest: a NULL column is a field that the manifest lacks.
-- A column of JSON holds JSON text. A text column may instead hold a BLOB of JSON: a value that should have been
-- text and is not, kept as it was given.

BEGIN IMMEDIATE;

CREATE TABLE IF NOT EXISTS accounts (
    id          TEXT PRIMARY KEY,
    created_at  TEXT NOT NULL
);

CREATE TABLE IF NOT EXISTS keys (
    sha256      TEXT PRIMARY KEY,
    account_id  TEXT NOT NULL REFERENCES accounts (id),
    created_at  TEXT NOT NULL,
    revoked_at  TEXT
);

CREATE TABLE IF NOT EXISTS model_configs (
    name        TEXT PRIMARY KEY,
    framework   TEXT,
    generates   TEXT,  -- what comes out of a generative model: text, image, audio, video
    task        TEXT   -- the one task of a model that was built for it
);

CREATE TABLE IF NOT EXISTS datasets (
    id          TEXT PRIMARY KEY,
    account_id  TEXT NOT NULL REFERENCES accounts (id),
    name        TEXT NOT NULL,
    domain      TEXT,
    UNIQUE (account_id, name)
);

CREATE TABLE IF NOT EXISTS training_jobs (
    id          TEXT PRIMARY KEY,
    account_id  TEXT NOT NULL REFERENCES accounts (id),
    operation   TEXT NOT NULL,
    status      TEXT NOT NULL,
    base_model  TEXT REFERENCES model_configs (name),
    dataset_id  TEXT REFERENCES datasets (id),
    columns     TEXT,
    config      TEXT,
    created_at  TEXT NOT NULL
);

CREATE TABLE IF NOT EXISTS model_versions (
    id               TEXT PRIMARY KEY,
    account_id       TEXT NOT NULL REFERENCES accounts (id),
    model            TEXT NOT NULL,
    version          INTEGER NOT NULL,
    training_job_id  TEXT NOT NULL REFERENCES training_jobs (id),
    status           TEXT NOT NULL,
    created_at       TEXT NOT NULL,
    UNIQUE (account_id, model, version)
);

CREATE TABLE IF NOT EXISTS inference_endpoints (
    id                    INTEGER PRIMARY KEY,
    slug                  TEXT NOT NULL UNIQUE,
    account_id            TEXT NOT NULL REFERENCES accounts (id),
    visibility            TEXT NOT NULL CHECK (visibility IN ('public', 'private')),
    action                TEXT,
    model_config          TEXT REFERENCES model_configs (name),
    training_job_id       TEXT REFERENCES training_jobs (id),
    cold_start_s          REAL,
    keep_warm_s           REAL,
    mcp_display_name      TEXT,
    mcp_version           TEXT,
    mcp_stability         TEXT,
    mcp_description       TEXT,
    mcp_long_description  TEXT,
    mcp_category          TEXT,
    mcp_tags              TEXT,
    mcp_input_schema      TEXT,
    mcp_output_schema     TEXT,
    mcp_examples          TEXT,
    mcp_side_effects      TEXT,
    mcp_cost_hint         TEXT,
    mcp_latency_class     TEXT,
    mcp_annotations       TEXT,
    mcp_links             TEXT,
    mcp_deprecated_at     TEXT,
    mcp_replaced_by       TEXT,
    mcp_extra             TEXT   -- JSON object laid over the derived manifest
);

-- An endpoint with a row here is an operation of the platform and no model; mcp_endpoint is the request that it stands for.
CREATE TABLE IF NOT EXISTS operations (
    endpoint_id   INTEGER PRIMARY KEY REFERENCES inference_endpoints (id) ON DELETE CASCADE,
    mcp_endpoint  TEXT
);

CREATE TABLE IF NOT EXISTS invocations (
    id             TEXT PRIMARY KEY,
    account_id     TEXT NOT NULL REFERENCES accounts (id),
    slug           TEXT NOT NULL,
    action         TEXT,
    input          TEXT NOT NULL,
    status         TEXT NOT NULL,
    status_detail  TEXT,
    model_state    TEXT NOT NULL,
    cold_start_s   REAL NOT NULL,
    keep_warm_s    REAL NOT NULL,
    result         TEXT,
    error          TEXT,
    metrics        TEXT,
    created_at     TEXT NOT NULL,
    started_at     TEXT,
    finished_at    TEXT
);

CREATE INDEX IF NOT EXISTS invocations_unfinished ON invocations (created_at) WHERE finished_at IS NULL;

CREATE TABLE IF NOT EXISTS idempotency (
    account_id   TEXT NOT NULL REFERENCES accounts (id),
    key          TEXT NOT NULL,
    fingerprint  TEXT NOT NULL,
    resource_id  TEXT NOT NULL,
    created_at   TEXT NOT NULL,
    PRIMARY KEY (account_id, key)
);

CREATE TABLE IF NOT EXISTS notes (
    id             INTEGER PRIMARY KEY,
    account_id     TEXT NOT NULL REFERENCES accounts (id),
    invocation_id  TEXT NOT NULL UNIQUE,
    line           TEXT NOT NULL,
    created_at     TEXT NOT NULL
);

-- One number that rises with every change that a manifest could show, whichever process made the change.
CREATE TABLE IF NOT EXISTS manifest_revision (
    id     INTEGER PRIMARY KEY CHECK (id = 1),
    value  INTEGER NOT NULL
);

INSERT OR IGNORE INTO manifest_revision (id, value) VALUES (1, 0);

CREATE TRIGGER IF NOT EXISTS endpoint_added AFTER INSERT ON inference_endpoints
    BEGIN UPDATE manifest_revision SET value = value + 1; END;
CREATE TRIGGER IF NOT EXISTS endpoint_changed AFTER UPDATE ON inference_endpoints
    BEGIN UPDATE manifest_revision SET value = value + 1; END;
CREATE TRIGGER IF NOT EXISTS endpoint_removed AFTER DELETE ON inference_endpoints
    BEGIN UPDATE manifest_revision SET value = value + 1; END;
CREATE TRIGGER IF NOT EXISTS operation_added AFTER INSERT ON operations
    BEGIN UPDATE manifest_revision SET value = value + 1; END;
CREATE TRIGGER IF NOT EXISTS operation_changed AFTER UPDATE ON operations
    BEGIN UPDATE manifest_revision SET value = value + 1; END;
CREATE TRIGGER IF NOT EXISTS operation_removed AFTER DELETE ON operations
    BEGIN UPDATE manifest_revision SET value = value + 1; END;
CREATE TRIGGER IF NOT EXISTS model_changed AFTER UPDATE ON model_configs
    BEGIN UPDATE manifest_revision SET value = value + 1; END;
CREATE TRIGGER IF NOT EXISTS job_changed AFTER UPDATE ON training_jobs
    BEGIN UPDATE manifest_revision SET value = value + 1; END;
CREATE TRIGGER IF NOT EXISTS dataset_changed AFTER UPDATE ON datasets
    BEGIN UPDATE manifest_revision SET value = value + 1; END;

-- What a manifest is made of, a row an endpoint. The kind follows from what the endpoint is joined to.
CREATE VIEW IF NOT EXISTS manifest_rows AS
SELECT
    e.*,
    CASE
        WHEN o.endpoint_id IS NOT NULL THEN 'operation'
        WHEN e.training_job_id IS NOT NULL THEN 'trained_model'
        WHEN m.generates = 'text' THEN 'llm'
        WHEN m.generates IS NOT NULL THEN 'generative'
        WHEN m.task IS NOT NULL THEN 'specialist'
        WHEN m.name IS NOT NULL THEN 'model'
        ELSE 'tool'
    END AS kind,
    o.mcp_endpoint,
    b.name AS base_model,
    b.framework AS base_framework,
    d.name AS dataset,
    d.domain AS dataset_domain,
    t.columns AS dataset_columns
FROM inference_endpoints AS e
LEFT JOIN operations AS o ON o.endpoint_id = e.id
LEFT JOIN model_configs AS m ON m.name = e.model_config
LEFT JOIN training_jobs AS t ON t.id = e.training_job_id
LEFT JOIN model_configs AS b ON b.name = t.base_model
LEFT JOIN datasets AS d ON d.id = t.dataset_id;

PRAGMA user_version = 1;

COMMIT;
