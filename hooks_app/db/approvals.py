"""What the database itself holds about approvals and grants, whatever the code does."""

APPROVALS = """
CREATE FUNCTION caduceus_approval_moves() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    approving int;
    narrowest int;
    denied boolean;
BEGIN
    IF TG_OP = 'INSERT' THEN
        IF NEW.state <> 'pending' THEN
            RAISE EXCEPTION 'a request begins as pending' USING ERRCODE = 'check_violation';
        END IF;
        RETURN NEW;
    END IF;
    IF OLD.state <> 'pending' AND NEW IS DISTINCT FROM OLD THEN
        RAISE EXCEPTION 'this request was % before', OLD.state USING ERRCODE = 'check_violation';
    END IF;
    IF (OLD.profile_id, OLD.command, OLD.command_digest, OLD.pattern_keys, OLD.session_key, OLD.requester,
        OLD.requester_user_id, OLD.deadline, OLD.choices, OLD.needed, OLD.created_at)
       IS DISTINCT FROM
       (NEW.profile_id, NEW.command, NEW.command_digest, NEW.pattern_keys, NEW.session_key, NEW.requester,
        NEW.requester_user_id, NEW.deadline, NEW.choices, NEW.needed, NEW.created_at) THEN
        RAISE EXCEPTION 'a request keeps its content' USING ERRCODE = 'check_violation';
    END IF;
    IF NEW.state = 'expired' AND OLD.state = 'pending' AND clock_timestamp() < NEW.deadline THEN
        RAISE EXCEPTION 'this request has time left' USING ERRCODE = 'check_violation';
    END IF;
    IF NEW.state IN ('approved', 'denied') AND OLD.state = 'pending' THEN
        SELECT count(*) FILTER (WHERE choice <> 'deny'), coalesce(bool_or(choice = 'deny'), false),
               min(array_position(ARRAY['once', 'session', 'always'], choice)) FILTER (WHERE choice <> 'deny')
        INTO approving, denied, narrowest FROM hooks_app_approvalanswer a WHERE a.approval_id = NEW.id;
        IF (NEW.state = 'denied') <> denied THEN
            RAISE EXCEPTION 'one no decides, and only that' USING ERRCODE = 'check_violation';
        END IF;
        IF NEW.state = 'approved' AND (
            approving < NEW.needed OR NEW.choice <> (ARRAY['once', 'session', 'always'])[narrowest]
        ) THEN
            RAISE EXCEPTION 'a request needs % approvers, and the narrowest choice counts', NEW.needed
                USING ERRCODE = 'check_violation';
        END IF;
    END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER moves BEFORE INSERT OR UPDATE ON hooks_app_approval
    FOR EACH ROW EXECUTE FUNCTION caduceus_approval_moves();
CREATE TRIGGER kept BEFORE DELETE ON hooks_app_approval
    FOR EACH ROW EXECUTE FUNCTION caduceus_refuse_change();

CREATE FUNCTION caduceus_approval_told() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    PERFORM pg_notify('caduceus_approvals', NEW.id::text);
    RETURN NULL;
END $$;
CREATE TRIGGER told AFTER UPDATE OF state ON hooks_app_approval
    FOR EACH ROW WHEN (OLD.state IS DISTINCT FROM NEW.state) EXECUTE FUNCTION caduceus_approval_told();

CREATE FUNCTION caduceus_answer_fits() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    request record;
BEGIN
    SELECT state, deadline, requester_user_id, choices INTO STRICT request
    FROM hooks_app_approval WHERE id = NEW.approval_id FOR UPDATE;
    IF request.state <> 'pending' OR clock_timestamp() >= request.deadline THEN
        RAISE EXCEPTION 'only a pending request can be answered' USING ERRCODE = 'check_violation';
    END IF;
    IF NEW.user_id = request.requester_user_id THEN
        RAISE EXCEPTION 'a requester does not answer their own request' USING ERRCODE = 'check_violation';
    END IF;
    IF NOT NEW.choice = ANY (request.choices) THEN
        RAISE EXCEPTION 'this choice was not offered' USING ERRCODE = 'check_violation';
    END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER fits BEFORE INSERT ON hooks_app_approvalanswer
    FOR EACH ROW EXECUTE FUNCTION caduceus_answer_fits();
CREATE TRIGGER immutable BEFORE UPDATE OR DELETE ON hooks_app_approvalanswer
    FOR EACH ROW EXECUTE FUNCTION caduceus_refuse_change();

CREATE FUNCTION caduceus_no_longer_pending(wanted uuid[]) RETURNS TABLE (id uuid)
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = public, pg_temp AS $$
    SELECT a.id FROM hooks_app_approval a WHERE a.id = ANY (wanted) AND a.state <> 'pending'
$$;
"""
SIGNATURES = ["caduceus_no_longer_pending(uuid[])"]

GRANTS = """
CREATE FUNCTION caduceus_grant_is_narrow() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    request record;
BEGIN
    IF TG_OP = 'UPDATE' THEN
        IF OLD.revoked_at IS NOT NULL OR NEW.revoked_at IS NULL
           OR (to_jsonb(OLD) - 'revoked_at' - 'revoked_by') <> (to_jsonb(NEW) - 'revoked_at' - 'revoked_by') THEN
            RAISE EXCEPTION 'a grant can only be revoked, once' USING ERRCODE = 'check_violation';
        END IF;
        RETURN NEW;
    END IF;
    SELECT state, choice, profile_id, pattern_keys, session_key, command_digest INTO STRICT request
    FROM hooks_app_approval WHERE id = NEW.approval_id;
    IF request.state <> 'approved' OR request.choice NOT IN ('session', 'always')
       OR NEW.profile_id <> request.profile_id
       OR NOT (NEW.pattern_keys <@ request.pattern_keys AND NEW.pattern_keys @> request.pattern_keys)
       OR (NEW.command_digest IS NOT NULL AND NEW.command_digest <> request.command_digest)
       OR (request.choice = 'session' AND NEW.session_key <> request.session_key) THEN
        RAISE EXCEPTION 'a grant covers what was approved, and nothing else' USING ERRCODE = 'check_violation';
    END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER narrow BEFORE INSERT OR UPDATE ON hooks_app_grant
    FOR EACH ROW EXECUTE FUNCTION caduceus_grant_is_narrow();
CREATE TRIGGER kept BEFORE DELETE ON hooks_app_grant
    FOR EACH ROW EXECUTE FUNCTION caduceus_refuse_change();

CREATE FUNCTION caduceus_switch_ends_once() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF OLD.ended_at IS NOT NULL OR NEW.ended_at IS NULL
       OR (to_jsonb(OLD) - 'ended_at' - 'ended_by_label') <> (to_jsonb(NEW) - 'ended_at' - 'ended_by_label') THEN
        RAISE EXCEPTION 'a switch can only be ended, once' USING ERRCODE = 'check_violation';
    END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER ends_once BEFORE UPDATE ON hooks_app_switch
    FOR EACH ROW EXECUTE FUNCTION caduceus_switch_ends_once();
CREATE TRIGGER kept BEFORE DELETE ON hooks_app_switch
    FOR EACH ROW EXECUTE FUNCTION caduceus_refuse_change();
"""
