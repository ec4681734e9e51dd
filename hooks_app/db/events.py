"""Events in Postgres: partitions of a week each, by the time-ordered id, behind functions that do one thing each.

Nobody reads a partition directly: row-level security stands on the parent, and the runtime role has no right on the
parts. What is removed is removed in whole sealed batches, so that the audit can tell retention from tampering.
"""

PARTITIONED = """
CREATE TABLE hooks_app_event_parts (LIKE hooks_app_event INCLUDING DEFAULTS INCLUDING CONSTRAINTS)
    PARTITION BY RANGE (id);
DROP TABLE hooks_app_event;
ALTER TABLE hooks_app_event_parts RENAME TO hooks_app_event;
ALTER TABLE hooks_app_event ADD CONSTRAINT hooks_app_event_pkey PRIMARY KEY (team_id, id);
CREATE INDEX event_commit_order ON hooks_app_event (commit_order);
CREATE INDEX event_team_session ON hooks_app_event (team_id, session) WHERE session <> '';
"""


def storage(runtime_role: str) -> str:
    """The functions, for a runtime role of this name."""
    quoted = '"' + runtime_role.replace('"', '""') + '"'
    return STORAGE.replace("{runtime}", quoted)


STORAGE = """
ALTER TABLE hooks_app_seenevent ENABLE ROW LEVEL SECURITY;
ALTER TABLE hooks_app_seenevent FORCE ROW LEVEL SECURITY;
CREATE POLICY owner_all ON hooks_app_seenevent TO CURRENT_USER USING (true) WITH CHECK (true);
REVOKE ALL ON hooks_app_seenevent FROM {runtime};

CREATE FUNCTION caduceus_first_id(moment timestamptz) RETURNS uuid
LANGUAGE sql IMMUTABLE AS $$
    SELECT (lpad(to_hex((extract(epoch FROM moment) * 1000)::bigint), 12, '0') || repeat('0', 20))::uuid
$$;

CREATE FUNCTION caduceus_event_part(moment timestamptz) RETURNS text
LANGUAGE sql STABLE AS $$
    SELECT 'hooks_app_event_' || to_char(moment AT TIME ZONE 'UTC', 'IYYY"w"IW')
$$;

CREATE FUNCTION caduceus_event_parts_ahead(weeks int) RETURNS int
LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp AS $$
DECLARE
    start timestamptz;
    name text;
    made int := 0;
BEGIN
    PERFORM pg_advisory_xact_lock(hashtextextended('caduceus_event_parts', 0));
    FOR week IN 0 .. least(weeks, 52) LOOP
        start := date_trunc('week', now() AT TIME ZONE 'UTC') AT TIME ZONE 'UTC' + make_interval(days => 7 * week);
        name := caduceus_event_part(start);
        IF to_regclass('public.' || name) IS NULL THEN
            EXECUTE format('CREATE TABLE %I PARTITION OF hooks_app_event FOR VALUES FROM (%L) TO (%L)', name,
                           caduceus_first_id(start), caduceus_first_id(start + interval '7 days'));
            EXECUTE format('REVOKE ALL ON %I FROM PUBLIC, {runtime}', name);
            EXECUTE format('ALTER TABLE %I ENABLE ROW LEVEL SECURITY', name);
            EXECUTE format('ALTER TABLE %I FORCE ROW LEVEL SECURITY', name);
            EXECUTE format('CREATE POLICY owner_all ON %I TO CURRENT_USER USING (true) WITH CHECK (true)', name);
            made := made + 1;
        END IF;
    END LOOP;
    RETURN made;
END $$;

CREATE FUNCTION caduceus_forget_seen(p_before timestamptz) RETURNS bigint
LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp AS $$
DECLARE
    removed bigint;
BEGIN
    IF p_before > now() - interval '1 day' THEN
        RAISE EXCEPTION 'a reporter may repeat an event for a day';
    END IF;
    DELETE FROM hooks_app_seenevent WHERE seen_at < p_before;
    GET DIAGNOSTICS removed = ROW_COUNT;
    RETURN removed;
END $$;
"""
STORAGE_SIGNATURES = [
    "caduceus_event_parts_ahead(int)",
    "caduceus_forget_seen(timestamptz)",
]

TAKE = """
CREATE OR REPLACE FUNCTION caduceus_take_events(
    p_team uuid, p_number bigint, p_reporter text, p_received timestamptz, p_batch uuid, p_events jsonb
) RETURNS int
LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp AS $$
DECLARE
    writing text := coalesce(current_setting('caduceus.write_team', true), '');
    taken int;
BEGIN
    -- Outside a transaction no scope is set, and this statement is one of its own: its team is its scope.
    IF writing <> '' AND writing <> p_team::text THEN
        RAISE insufficient_privilege USING MESSAGE = 'events of this team are outside the scope';
    END IF;
    IF NOT EXISTS (SELECT 1 FROM hooks_app_configuration c WHERE c.team_id = p_team AND c.number = p_number) THEN
        RETURN NULL; -- what is a secret was read from a configuration that is no longer in force
    END IF;
    IF to_regclass(caduceus_event_part(now())) IS NULL THEN
        PERFORM caduceus_event_parts_ahead(4);
    END IF;
    WITH given AS (
        SELECT * FROM jsonb_to_recordset(p_events) AS e (
            id uuid, mark uuid, profile_id uuid, key text, event text, tool text, session text,
            happened_at timestamptz, payload jsonb, digest bytea
        )
    ), new_marks AS (
        INSERT INTO hooks_app_seenevent (team_id, mark, seen_at)
        SELECT p_team, g.mark, p_received FROM given g
        WHERE EXISTS (SELECT 1 FROM controlplane_profile p WHERE p.team_id = p_team AND p.id = g.profile_id)
        ORDER BY g.mark -- two that tell the same events at once wait for each other, and never in a circle
        ON CONFLICT DO NOTHING RETURNING mark
    ), stored AS (
        INSERT INTO hooks_app_event (id, team_id, profile_id, reporter, key, event, tool, session, happened_at,
                                     received_at, payload, digest)
        SELECT g.id, p_team, g.profile_id, p_reporter, g.key, g.event, g.tool, g.session, g.happened_at,
               p_received, g.payload, g.digest
        FROM given g JOIN new_marks USING (mark)
        ORDER BY g.id
        RETURNING id
    ), batch AS (
        INSERT INTO hooks_app_eventbatch (id, team_id, events, state, attempts, reason, created_at)
        SELECT p_batch, p_team, jsonb_agg(id), 'pending', 0, '', p_received FROM stored HAVING count(*) > 0
    )
    SELECT count(*) INTO taken FROM stored;
    RETURN taken;
END $$;
"""
TAKE_SIGNATURES = ["caduceus_take_events(uuid, bigint, text, timestamptz, uuid, jsonb)"]

RETENTION = """
CREATE FUNCTION caduceus_kept_since(p_team uuid) RETURNS timestamptz
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = public, pg_temp AS $$
    SELECT CASE WHEN EXISTS (SELECT 1 FROM hooks_app_legalhold h WHERE h.team_id = p_team AND h.lifted_at IS NULL)
           THEN '-infinity'::timestamptz ELSE now() - make_interval(days => t.retention_days) END
    FROM controlplane_team t WHERE t.id = p_team
$$;

CREATE FUNCTION caduceus_prune_sealed(p_team uuid, p_source text) RETURNS bigint
LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp AS $$
DECLARE
    edge bigint;
    removed bigint;
BEGIN
    IF p_team::text IS DISTINCT FROM current_setting('caduceus.write_team', true) THEN
        RAISE insufficient_privilege USING MESSAGE = 'records of this team are outside the scope';
    END IF;
    SELECT max((a.details ->> 'high')::bigint) INTO edge FROM controlplane_auditentry a
    WHERE a.team_id = p_team AND a.action = 'audit.sealed' AND a.details ->> 'source' = p_source
      AND a.at < caduceus_kept_since(p_team);
    IF edge IS NULL THEN
        RETURN 0;
    ELSIF p_source = 'events' THEN
        DELETE FROM hooks_app_event e WHERE e.team_id = p_team AND e.commit_order < edge;
    ELSIF p_source = 'decisions' THEN
        DELETE FROM hooks_app_decision d WHERE d.team_id = p_team AND d.commit_order < edge;
    ELSE
        RAISE EXCEPTION '% is not pruned here', p_source;
    END IF;
    GET DIAGNOSTICS removed = ROW_COUNT;
    RETURN removed;
END $$;

CREATE FUNCTION caduceus_event_parts_behind() RETURNS SETOF text
LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp AS $$
DECLARE
    part record;
    youngest timestamptz;
    edge bigint;
    last_order bigint;
BEGIN
    SELECT min(caduceus_kept_since(t.id)) INTO youngest FROM controlplane_team t;
    FOR part IN
        SELECT c.relname AS name,
               to_timestamp(substring(c.relname FROM '[0-9]{4}w[0-9]{2}$'), 'IYYY"w"IW') + interval '7 days' AS ends
        FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid WHERE i.inhparent = 'hooks_app_event'::regclass
        ORDER BY c.relname
    LOOP
        CONTINUE WHEN part.ends + interval '1 day' > youngest;
        EXECUTE format('SELECT max(commit_order) FROM %I', part.name) INTO last_order;
        SELECT min((a.details ->> 'high')::bigint) INTO edge FROM controlplane_auditentry a
        WHERE a.action = 'audit.sealed' AND a.details ->> 'source' = 'events'
          AND (a.details ->> 'high')::bigint > last_order;
        CONTINUE WHEN last_order IS NOT NULL AND edge IS NULL;
        -- The last batch may reach into the next week: it goes as a whole.
        DELETE FROM hooks_app_event e WHERE e.commit_order < edge AND e.id >= caduceus_first_id(part.ends);
        EXECUTE format('DROP TABLE %I', part.name);
        RETURN NEXT part.name;
    END LOOP;
END $$;
"""
RETENTION_SIGNATURES = [
    "caduceus_kept_since(uuid)",
    "caduceus_prune_sealed(uuid, text)",
    "caduceus_event_parts_behind()",
]
