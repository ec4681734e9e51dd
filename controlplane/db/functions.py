"""The plane's functions in Postgres: what must be looked up before a scope exists, and the audit's only door.

Each runs with the owner's rights, so each is as narrow as its one question.
"""

BEFORE_SCOPE = """
CREATE FUNCTION caduceus_memberships(wanted bigint)
RETURNS TABLE (team_id uuid, slug text, name text, roles text[])
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = public, pg_temp AS $$
    SELECT t.id, t.slug, t.name, m.roles::text[]
    FROM controlplane_membership m JOIN controlplane_team t ON t.id = m.team_id
    WHERE m.user_id = wanted AND t.archived_at IS NULL
$$;

CREATE FUNCTION caduceus_token(wanted bytea)
RETURNS TABLE (
    id uuid, team_id uuid, name text, abilities text[], profile_id uuid, expires_at timestamptz,
    user_id bigint, user_active boolean, is_operator boolean, roles text[]
)
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = public, pg_temp AS $$
    SELECT k.id, k.team_id, k.name, k.abilities::text[], k.profile_id, k.expires_at,
           k.created_by_id, coalesce(u.is_active, true), coalesce(u.is_superuser, false),
           coalesce(m.roles::text[], '{}')
    FROM controlplane_token k
    JOIN controlplane_team t ON t.id = k.team_id AND t.archived_at IS NULL
    LEFT JOIN controlplane_profile p ON p.id = k.profile_id
    LEFT JOIN controlplane_user u ON u.id = k.created_by_id
    LEFT JOIN controlplane_membership m ON m.team_id = k.team_id AND m.user_id = k.created_by_id
    WHERE k.hash = wanted AND k.revoked_at IS NULL AND (k.expires_at IS NULL OR k.expires_at > now())
      AND p.archived_at IS NULL
$$;

CREATE FUNCTION caduceus_teams()
RETURNS TABLE (team_id uuid)
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = public, pg_temp AS $$
    SELECT id FROM controlplane_team
$$;

CREATE FUNCTION caduceus_tokens_used(ids uuid[], moments timestamptz[])
RETURNS void
LANGUAGE sql SECURITY DEFINER SET search_path = public, pg_temp AS $$
    UPDATE controlplane_token k SET last_used_at = greatest(k.last_used_at, u.moment)
    FROM unnest(ids, moments) AS u (id, moment) WHERE k.id = u.id
$$;
"""
BEFORE_SCOPE_SIGNATURES = [
    "caduceus_memberships(bigint)",
    "caduceus_token(bytea)",
    "caduceus_teams()",
    "caduceus_tokens_used(uuid[], timestamptz[])",
]

AUDIT = """
CREATE FUNCTION caduceus_audit_append(
    p_team uuid, p_id uuid, p_at timestamptz, p_action text,
    p_actor_kind text, p_actor_id text, p_actor_label text,
    p_target_kind text, p_target_id text, p_target_label text,
    p_request_id text, p_details jsonb, p_digest bytea
) RETURNS bigint
LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp AS $$
DECLARE
    link record;
BEGIN
    IF p_team::text IS DISTINCT FROM current_setting('caduceus.write_team', true) THEN
        RAISE insufficient_privilege USING MESSAGE = 'the audit of this team is outside the scope';
    END IF;
    UPDATE controlplane_audithead
    SET seq = seq + 1, hash = sha256(hash || int8send(seq + 1) || p_digest)
    WHERE team_id = p_team RETURNING seq, hash INTO STRICT link;
    INSERT INTO controlplane_auditentry
        (id, team_id, seq, at, action, actor_kind, actor_id, actor_label, target_kind, target_id,
         target_label, request_id, details, hash)
    VALUES
        (p_id, p_team, link.seq, p_at, p_action, p_actor_kind, p_actor_id, p_actor_label, p_target_kind,
         p_target_id, p_target_label, p_request_id, p_details, link.hash);
    RETURN link.seq;
END $$;

CREATE FUNCTION caduceus_audit_prune(p_team uuid, p_seq bigint) RETURNS bigint
LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp AS $$
DECLARE
    removed bigint;
BEGIN
    IF p_team::text IS DISTINCT FROM current_setting('caduceus.write_team', true) THEN
        RAISE insufficient_privilege USING MESSAGE = 'the audit of this team is outside the scope';
    END IF;
    UPDATE controlplane_auditcheckpoint SET pruned = true WHERE team_id = p_team AND seq = p_seq;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'entries are removed only up to a signed checkpoint';
    END IF;
    PERFORM set_config('caduceus.pruning', 'on', true);
    DELETE FROM controlplane_auditentry WHERE team_id = p_team AND seq <= p_seq;
    GET DIAGNOSTICS removed = ROW_COUNT;
    PERFORM set_config('caduceus.pruning', '', true);
    RETURN removed;
END $$;

CREATE FUNCTION caduceus_commit_order() RETURNS bigint
LANGUAGE sql STABLE AS $$
    SELECT pg_current_xact_id()::text::bigint
         + coalesce(nullif(current_setting('caduceus.commit_base', true), ''), '0')::bigint
$$;

CREATE FUNCTION caduceus_commit_horizon() RETURNS bigint
LANGUAGE sql STABLE AS $$
    SELECT pg_snapshot_xmin(pg_current_snapshot())::text::bigint
         + coalesce(nullif(current_setting('caduceus.commit_base', true), ''), '0')::bigint
$$;

CREATE FUNCTION caduceus_raise_commit_base(p_base bigint) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp AS $$
BEGIN
    EXECUTE format('ALTER DATABASE %I SET caduceus.commit_base = %L', current_database(), p_base::text);
EXCEPTION WHEN insufficient_privilege THEN
    RAISE insufficient_privilege USING MESSAGE = format(
        'a superuser must run once: GRANT SET ON PARAMETER caduceus.commit_base TO %I', current_user);
END $$;
"""
AUDIT_SIGNATURES = [
    "caduceus_audit_append(uuid, uuid, timestamptz, text, text, text, text, text, text, text, text, jsonb, bytea)",
    "caduceus_audit_prune(uuid, bigint)",
    "caduceus_commit_order()",
    "caduceus_commit_horizon()",
    "caduceus_raise_commit_base(bigint)",
]

APPEND_ONLY = """
CREATE FUNCTION caduceus_refuse_change() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF TG_OP = 'DELETE' AND current_setting('caduceus.pruning', true) = 'on' THEN
        RETURN OLD;
    END IF;
    RAISE EXCEPTION '% is append-only: % is refused', TG_TABLE_NAME, TG_OP USING ERRCODE = 'restrict_violation';
END $$;

CREATE TRIGGER append_only BEFORE UPDATE OR DELETE ON controlplane_auditentry
    FOR EACH ROW EXECUTE FUNCTION caduceus_refuse_change();
CREATE TRIGGER append_only_truncate BEFORE TRUNCATE ON controlplane_auditentry
    FOR EACH STATEMENT EXECUTE FUNCTION caduceus_refuse_change();

CREATE FUNCTION caduceus_begin_chain() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp AS $$
BEGIN
    INSERT INTO controlplane_audithead (team_id, seq, hash) VALUES (NEW.id, 0, decode(repeat('00', 32), 'hex'));
    RETURN NULL;
END $$;
CREATE TRIGGER begin_chain AFTER INSERT ON controlplane_team
    FOR EACH ROW EXECUTE FUNCTION caduceus_begin_chain();

CREATE FUNCTION caduceus_keep_team() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'a team is archived, never deleted' USING ERRCODE = 'restrict_violation';
END $$;
CREATE TRIGGER keep_team BEFORE DELETE ON controlplane_team FOR EACH ROW EXECUTE FUNCTION caduceus_keep_team();

INSERT INTO controlplane_team
    (id, slug, name, created_at, revision, reviewers_per_change, approvers_per_request, retention_days)
VALUES ('00000000-0000-0000-0000-000000000000', 'plane', 'The plane itself', now(), 1, 1, 1, 3650);
"""
