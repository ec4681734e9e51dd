"""What must be known about agents before a scope exists, and where a beat is noted without one."""

AGENTS = """
CREATE FUNCTION caduceus_enrolment(wanted bytea)
RETURNS TABLE (id uuid, team_id uuid)
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = public, pg_temp AS $$
    SELECT e.id, e.team_id FROM gateway_app_enrolment e
    JOIN controlplane_team t ON t.id = e.team_id AND t.archived_at IS NULL
    JOIN controlplane_profile p ON p.id = e.profile_id AND p.archived_at IS NULL
    WHERE e.hash = wanted AND e.revoked_at IS NULL AND e.used < e.uses AND e.expires_at > now()
$$;

CREATE FUNCTION caduceus_agents_heard(tokens uuid[], moments timestamptz[])
RETURNS void
LANGUAGE sql SECURITY DEFINER SET search_path = public, pg_temp AS $$
    UPDATE gateway_app_agent a SET last_heard_at = greatest(a.last_heard_at, h.moment)
    FROM unnest(tokens, moments) AS h (token, moment)
    WHERE a.token_id = h.token OR a.next_token_id = h.token
$$;
"""
SIGNATURES = ["caduceus_enrolment(bytea)", "caduceus_agents_heard(uuid[], timestamptz[])"]

RECEIPTS = """
CREATE TRIGGER immutable BEFORE UPDATE OR DELETE ON gateway_app_receipt
    FOR EACH ROW EXECUTE FUNCTION caduceus_refuse_change();
"""
