"""Deliveries in Postgres: one worker claims for all teams, and only the holder of a claim may report on it.

Workers have no team, so these functions run with the owner's rights, each as narrow as its one question. Every moment
is Postgres's own (`statement_timestamp`): leases and waiting times do not depend on a worker's clock.
"""

RULES = """
CREATE FUNCTION caduceus_delivery_moves() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF (OLD.id, OLD.team_id, OLD.endpoint_id, OLD.version_id, OLD.event, OLD.event_id, OLD.body, OLD.created_at)
       IS DISTINCT FROM
       (NEW.id, NEW.team_id, NEW.endpoint_id, NEW.version_id, NEW.event, NEW.event_id, NEW.body, NEW.created_at) THEN
        RAISE EXCEPTION 'a message keeps its content' USING ERRCODE = 'check_violation';
    END IF;
    IF OLD.state <> NEW.state AND (OLD.state, NEW.state) NOT IN (
        ('pending', 'sending'), ('pending', 'dead'), ('sending', 'pending'), ('sending', 'delivered'),
        ('sending', 'dead'), ('delivered', 'pending'), ('dead', 'pending')
    ) THEN
        RAISE EXCEPTION 'a delivery cannot go from % to %', OLD.state, NEW.state USING ERRCODE = 'check_violation';
    END IF;
    IF NEW.claim < OLD.claim OR (NEW.state = 'sending' AND OLD.state <> 'sending' AND NEW.claim = OLD.claim) THEN
        RAISE EXCEPTION 'every claim has a number of its own' USING ERRCODE = 'check_violation';
    END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER moves BEFORE UPDATE ON hooks_app_delivery
    FOR EACH ROW EXECUTE FUNCTION caduceus_delivery_moves();

CREATE FUNCTION caduceus_endpoint_fits() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF TG_OP = 'UPDATE' AND OLD.hook_id <> NEW.hook_id THEN
        RAISE EXCEPTION 'an endpoint keeps its hook' USING ERRCODE = 'check_violation';
    END IF;
    IF NOT EXISTS (SELECT 1 FROM hooks_app_hook h WHERE h.id = NEW.hook_id AND h.kind = 'webhook') THEN
        RAISE EXCEPTION 'only a webhook hook has an endpoint' USING ERRCODE = 'check_violation';
    END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER fits BEFORE INSERT OR UPDATE OF hook_id ON hooks_app_endpoint
    FOR EACH ROW EXECUTE FUNCTION caduceus_endpoint_fits();
"""

# The first steps find the endpoints that have open work without reading the rows in between. What is ready is locked
# for the moment of the claim; a probe moves `open_until`, so that whoever looked at the same time sees it taken.
CLAIM = """
CREATE FUNCTION caduceus_deliveries_claim(p_worker uuid, p_limit integer, p_lease double precision)
RETURNS TABLE (
    id uuid, claim integer, attempts integer, team_id uuid, endpoint_id uuid, event text, body text, url text,
    timeout integer, version integer, secret text, former_secret text, concurrency integer, failures integer,
    claimed_at double precision
)
LANGUAGE sql SECURITY DEFINER SET search_path = public, pg_temp AS $$
    WITH RECURSIVE waiting (endpoint) AS (
        (SELECT d.endpoint_id FROM hooks_app_delivery d WHERE d.state = 'pending' ORDER BY d.endpoint_id LIMIT 1)
        UNION ALL
        SELECT (SELECT d.endpoint_id FROM hooks_app_delivery d
                WHERE d.state = 'pending' AND d.endpoint_id > w.endpoint ORDER BY d.endpoint_id LIMIT 1)
        FROM waiting w WHERE w.endpoint IS NOT NULL
    ), ready AS MATERIALIZED (
        SELECT e.id, e.breaker, e.concurrency, e.failures, e.secret,
               CASE WHEN e.former_until > statement_timestamp() THEN e.former_secret END AS former_secret,
               v.manifest->>'url' AS url, (v.manifest->>'timeout')::integer AS timeout, v.number AS version
        FROM hooks_app_endpoint e
        JOIN hooks_app_hook h ON h.id = e.hook_id AND h.revoked_at IS NULL
        JOIN hooks_app_hookversion v ON v.id = h.active_version_id
        JOIN controlplane_team t ON t.id = e.team_id AND t.archived_at IS NULL
        WHERE e.id IN (SELECT w.endpoint FROM waiting w) AND e.disabled_at IS NULL
          AND (e.breaker = 'closed' OR e.open_until <= statement_timestamp())
          AND EXISTS (SELECT 1 FROM hooks_app_delivery d WHERE d.endpoint_id = e.id AND d.state = 'pending'
                      AND d.next_attempt_at <= statement_timestamp())
        ORDER BY random() LIMIT p_limit
        FOR NO KEY UPDATE OF e SKIP LOCKED
    ), shares AS (
        SELECT r.*, CASE WHEN r.breaker = 'closed' THEN least(
                   greatest(1, p_limit / (SELECT count(*) FROM ready)::integer),
                   r.concurrency * 8 - (SELECT count(*) FROM hooks_app_delivery d
                                         WHERE d.endpoint_id = r.id AND d.state = 'sending')
               ) ELSE 1 END AS room
        FROM ready r
    ), picked AS (
        SELECT d.id AS delivery, s.* FROM shares s CROSS JOIN LATERAL (
            SELECT d.id FROM hooks_app_delivery d
            WHERE d.endpoint_id = s.id AND d.state = 'pending' AND d.next_attempt_at <= statement_timestamp()
            ORDER BY d.next_attempt_at LIMIT greatest(0, s.room) FOR UPDATE SKIP LOCKED
        ) d
    ), claimed AS (
        UPDATE hooks_app_delivery d
        SET state = 'sending', claimed_by = p_worker, claim = d.claim + 1, attempts = d.attempts + 1,
            claimed_until = statement_timestamp() + make_interval(secs => p_lease)
        FROM picked p WHERE d.id = p.delivery AND d.state = 'pending'
        RETURNING d.id, d.claim, d.attempts, d.team_id, d.endpoint_id, d.event, d.body, p.url, p.timeout,
                  p.version, p.secret, p.former_secret, p.concurrency, p.failures
    ), probing AS (
        UPDATE hooks_app_endpoint e
        SET breaker = 'half_open', open_until = statement_timestamp() + make_interval(secs => p_lease)
        FROM (SELECT DISTINCT c.endpoint_id FROM claimed c) c WHERE e.id = c.endpoint_id AND e.breaker <> 'closed'
    )
    SELECT c.*, extract(epoch FROM statement_timestamp())::double precision FROM claimed c
$$;
"""

# A result counts only for the claim it belongs to: a worker that comes back after its lease changes nothing.
SETTLE = """
CREATE FUNCTION caduceus_deliveries_settle(p_worker uuid, p_results jsonb, p_trip_after integer, p_lasting interval)
RETURNS TABLE (settled integer, disable_team uuid, disable_endpoint uuid, gone boolean)
LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp AS $$
DECLARE
    accepted uuid[];
    hurt uuid[];
BEGIN
    WITH given AS (
        SELECT * FROM jsonb_to_recordset(p_results) AS g (
            id uuid, claim integer, state text, result text, status integer, answer text, reason text,
            ms double precision, delay double precision, released boolean, version integer)
    ), done AS (
        UPDATE hooks_app_delivery d
        SET state = g.state, claimed_by = NULL, claimed_until = NULL,
            attempts = d.attempts - g.released::integer,
            next_attempt_at = CASE WHEN g.released THEN d.next_attempt_at
                                   ELSE statement_timestamp() + make_interval(secs => g.delay) END,
            delivered_at = CASE WHEN g.state = 'delivered' THEN statement_timestamp() ELSE d.delivered_at END,
            result = CASE WHEN g.released THEN d.result ELSE g.result END,
            status = CASE WHEN g.released THEN d.status ELSE g.status END,
            answer = CASE WHEN g.released THEN d.answer ELSE g.answer END,
            reason = CASE WHEN g.released THEN d.reason ELSE g.reason END,
            duration_ms = CASE WHEN g.released THEN d.duration_ms ELSE g.ms END,
            log = CASE WHEN g.released THEN d.log ELSE
                (CASE WHEN jsonb_array_length(d.log) >= 50 THEN d.log - 0 ELSE d.log END)
                || jsonb_build_object('at', statement_timestamp(), 'result', g.result, 'status', g.status,
                                      'reason', g.reason, 'ms', round(g.ms), 'version', g.version) END
        FROM given g
        WHERE d.id = g.id AND d.claim = g.claim AND d.claimed_by = p_worker AND d.state = 'sending'
        RETURNING d.id
    )
    SELECT coalesce(array_agg(done.id), '{}') INTO accepted FROM done;

    -- Locked in one order, so that two workers never wait for each other.
    SELECT array_agg(e.id) INTO hurt FROM (
        SELECT e.id FROM hooks_app_endpoint e
        WHERE e.id IN (SELECT DISTINCT d.endpoint_id FROM hooks_app_delivery d WHERE d.id = ANY (accepted))
          AND (e.failures > 0 OR e.breaker <> 'closed' OR e.failing_since IS NOT NULL OR EXISTS (
              SELECT 1 FROM jsonb_to_recordset(p_results) AS g (id uuid, endpoint uuid, health text)
              WHERE g.endpoint = e.id AND g.health <> 'well'))
        ORDER BY e.id FOR NO KEY UPDATE
    ) e;

    IF hurt IS NOT NULL THEN
        RETURN QUERY
        WITH seen AS (
            SELECT g.endpoint, bool_or(g.health = 'well') AS well, bool_or(g.health IN ('well', 'alive')) AS alive,
                   -- What hangs holds threads, so it counts double.
                   sum(CASE WHEN g.health <> 'failing' THEN 0 WHEN g.result = 'answered' THEN 1 ELSE 2 END)::integer
                       AS fails, bool_or(g.gone) AS gone,
                   max(g.pause) AS pause
            FROM jsonb_to_recordset(p_results) AS g (
                id uuid, endpoint uuid, health text, result text, gone boolean, pause double precision,
                released boolean)
            WHERE g.id = ANY (accepted) AND NOT g.released GROUP BY g.endpoint
        ), judged AS (
            SELECT e.id, s.*,
                   NOT s.alive AND s.fails > 0 AND e.breaker <> 'open' AND (
                       e.breaker = 'half_open' OR s.pause > 0 OR e.failures + s.fails >= p_trip_after) AS trips_now
            FROM hooks_app_endpoint e JOIN seen s ON s.endpoint = e.id WHERE e.id = ANY (hurt)
        ), changed AS (
            UPDATE hooks_app_endpoint e
            SET failures = CASE WHEN j.alive THEN 0 ELSE e.failures + j.fails END,
                trips = CASE WHEN j.alive THEN 0 ELSE e.trips + j.trips_now::integer END,
                breaker = CASE WHEN j.alive THEN 'closed' WHEN j.trips_now THEN 'open' ELSE e.breaker END,
                open_until = CASE WHEN j.alive THEN NULL WHEN j.trips_now THEN statement_timestamp() + greatest(
                    make_interval(secs => j.pause),
                    make_interval(secs => (0.8 + 0.4 * random()) * least(1800, 15 * 2 ^ least(e.trips, 10))))
                    ELSE e.open_until END,
                failing_since = CASE WHEN j.well THEN NULL
                    WHEN e.failing_since IS NULL OR e.failed_at < statement_timestamp() - interval '1 day'
                    THEN statement_timestamp() ELSE e.failing_since END,
                failed_at = CASE WHEN j.well THEN e.failed_at ELSE statement_timestamp() END
            FROM judged j WHERE e.id = j.id
            RETURNING e.team_id, e.id, j.gone, e.failing_since
        )
        SELECT 0, c.team_id, c.id, c.gone FROM changed c
        WHERE c.gone OR c.failing_since < statement_timestamp() - p_lasting;
    END IF;
    RETURN QUERY SELECT cardinality(accepted), NULL::uuid, NULL::uuid, false;
END $$;
"""

# What a killed worker left behind. It may have been received: the receiver knows the message id.
REAP = """
CREATE FUNCTION caduceus_deliveries_reap(p_attempts integer, p_delay double precision) RETURNS integer
LANGUAGE sql SECURITY DEFINER SET search_path = public, pg_temp AS $$
    WITH lost AS (
        SELECT d.id FROM hooks_app_delivery d
        WHERE d.state = 'sending' AND d.claimed_until < statement_timestamp() LIMIT 1000 FOR UPDATE SKIP LOCKED
    ), back AS (
        UPDATE hooks_app_delivery d
        SET state = CASE WHEN d.attempts >= p_attempts THEN 'dead' ELSE 'pending' END,
            claimed_by = NULL, claimed_until = NULL, result = 'lost', status = NULL, answer = '',
            next_attempt_at = statement_timestamp() + make_interval(secs => p_delay),
            reason = 'The worker that held it is gone; it may have arrived.',
            log = (CASE WHEN jsonb_array_length(d.log) >= 50 THEN d.log - 0 ELSE d.log END)
                  || jsonb_build_object('at', statement_timestamp(), 'result', 'lost')
        FROM lost WHERE d.id = lost.id RETURNING 1
    )
    SELECT count(*)::integer FROM back
$$;

CREATE FUNCTION caduceus_deliveries_give_up() RETURNS integer
LANGUAGE sql SECURITY DEFINER SET search_path = public, pg_temp AS $$
    WITH closed AS MATERIALIZED (
        SELECT e.id, CASE
            WHEN e.disabled_at IS NOT NULL THEN 'The endpoint is disabled: ' || e.disabled_reason
            WHEN h.revoked_at IS NOT NULL THEN 'The hook is revoked: ' || h.revoked_reason
            WHEN t.archived_at IS NOT NULL THEN 'The team is archived.'
            ELSE 'The hook has no version in force.' END AS reason
        FROM hooks_app_endpoint e
        JOIN hooks_app_hook h ON h.id = e.hook_id JOIN controlplane_team t ON t.id = e.team_id
        WHERE e.disabled_at IS NOT NULL OR h.revoked_at IS NOT NULL OR h.active_version_id IS NULL
           OR t.archived_at IS NOT NULL
    ), left_over AS (
        SELECT d.id, c.reason FROM closed c CROSS JOIN LATERAL (
            SELECT d.id FROM hooks_app_delivery d
            WHERE d.endpoint_id = c.id AND d.state = 'pending' LIMIT 1000 FOR UPDATE SKIP LOCKED) d
        LIMIT 10000
    ), ended AS (
        UPDATE hooks_app_delivery d SET state = 'dead', reason = left(l.reason, 500)
        FROM left_over l WHERE d.id = l.id RETURNING 1
    )
    SELECT count(*)::integer FROM ended
$$;
"""
SIGNATURES = [
    "caduceus_deliveries_claim(uuid, integer, double precision)",
    "caduceus_deliveries_settle(uuid, jsonb, integer, interval)",
    "caduceus_deliveries_reap(integer, double precision)",
    "caduceus_deliveries_give_up()",
]
