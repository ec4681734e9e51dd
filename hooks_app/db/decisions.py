"""The only door through which decisions are recorded: one statement that checks and inserts what several ask at once."""

RECORD = """
CREATE OR REPLACE FUNCTION caduceus_decide(p_team uuid, p_decisions jsonb) RETURNS SETOF uuid
LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp AS $$
DECLARE
    writing text := coalesce(current_setting('caduceus.write_team', true), '');
BEGIN
    -- Outside a transaction no scope is set, and this statement is one of its own: its team is its scope.
    IF writing <> '' AND writing <> p_team::text THEN
        RAISE insufficient_privilege USING MESSAGE = 'decisions of this team are outside the scope';
    END IF;
    -- What was decided from another configuration, or under a key that is taken, is left out.
    RETURN QUERY
    INSERT INTO hooks_app_decision
        (id, team_id, profile_id, key, fingerprint, at, event, tool, session, payload, outcome, hook, rule, answer,
         observed, configuration, actor, approval_id, digest)
    SELECT d.id, p_team, d.profile_id, d.key, d.fingerprint, d.at, d.event, d.tool, d.session, d.payload, d.outcome,
           d.hook, d.rule, d.answer, d.observed, d.configuration, d.actor, d.approval_id, d.digest
    FROM jsonb_to_recordset(p_decisions) AS d (
        id uuid, profile_id uuid, key text, fingerprint bytea, at timestamptz, event text, tool text, session text,
        payload jsonb, outcome text, hook text, rule text, answer jsonb, observed text, configuration bigint,
        actor text, approval_id uuid, digest bytea
    )
    JOIN hooks_app_configuration c ON c.team_id = p_team AND c.number = d.configuration
    ORDER BY d.profile_id, d.key -- two that record the same keys at once wait for each other, and never in a circle
    ON CONFLICT (team_id, profile_id, key) DO NOTHING
    RETURNING hooks_app_decision.id;
END $$;

CREATE OR REPLACE FUNCTION caduceus_decided(
    p_team uuid, p_profile uuid, p_key text, OUT answer jsonb, OUT fingerprint bytea
) LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = public, pg_temp AS $$
DECLARE
    writing text := coalesce(current_setting('caduceus.write_team', true), '');
BEGIN
    IF writing <> '' AND writing <> p_team::text THEN
        RAISE insufficient_privilege USING MESSAGE = 'decisions of this team are outside the scope';
    END IF;
    SELECT d.answer, d.fingerprint INTO answer, fingerprint
    FROM hooks_app_decision d WHERE d.team_id = p_team AND d.profile_id = p_profile AND d.key = p_key;
END $$;
"""
SIGNATURES = ["caduceus_decide(uuid, jsonb)", "caduceus_decided(uuid, uuid, text)"]
