"""The only door through which a decision is recorded: one statement that checks, inserts, or finds the first answer."""

RECORD = """
CREATE FUNCTION caduceus_decide(
    p_team uuid, p_number bigint, p_id uuid, p_profile uuid, p_key text, p_fingerprint bytea, p_at timestamptz,
    p_event text, p_tool text, p_session text, p_payload jsonb, p_outcome text, p_hook text, p_rule text,
    p_answer jsonb, p_observed text, p_actor text, p_approval uuid, p_digest bytea,
    OUT status text, OUT answer jsonb, OUT fingerprint bytea
) LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp AS $$
DECLARE
    writing text := coalesce(current_setting('caduceus.write_team', true), '');
BEGIN
    -- Outside a transaction no scope is set, and this statement is one of its own: its team is its scope.
    IF writing <> '' AND writing <> p_team::text THEN
        RAISE insufficient_privilege USING MESSAGE = 'decisions of this team are outside the scope';
    END IF;
    INSERT INTO hooks_app_decision
        (id, team_id, profile_id, key, fingerprint, at, event, tool, session, payload, outcome, hook, rule, answer,
         observed, configuration, actor, approval_id, digest)
    SELECT p_id, p_team, p_profile, p_key, p_fingerprint, p_at, p_event, p_tool, p_session, p_payload, p_outcome,
           p_hook, p_rule, p_answer, p_observed, c.number, p_actor, p_approval, p_digest
    FROM hooks_app_configuration c WHERE c.team_id = p_team AND c.number = p_number
    ON CONFLICT (team_id, profile_id, key) DO NOTHING;
    IF FOUND THEN
        status := 'recorded';
        RETURN;
    END IF;
    SELECT 'known', d.answer, d.fingerprint INTO status, answer, fingerprint
    FROM hooks_app_decision d WHERE d.team_id = p_team AND d.profile_id = p_profile AND d.key = p_key;
    status := coalesce(status, 'stale');
END $$;

CREATE FUNCTION caduceus_decided(
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
SIGNATURES = [
    "caduceus_decide(uuid, bigint, uuid, uuid, text, bytea, timestamptz, text, text, text, jsonb, text, text, text, "
    "jsonb, text, text, uuid, bytea)",
    "caduceus_decided(uuid, uuid, text)",
]
