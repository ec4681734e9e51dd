"""What the database itself refuses in the hooks app."""

IMMUTABLE = """
CREATE TRIGGER immutable BEFORE UPDATE OR DELETE ON hooks_app_hookversion
    FOR EACH ROW EXECUTE FUNCTION caduceus_refuse_change();
CREATE TRIGGER immutable BEFORE UPDATE OR DELETE ON hooks_app_blob
    FOR EACH ROW EXECUTE FUNCTION caduceus_refuse_change();
CREATE TRIGGER immutable BEFORE UPDATE OR DELETE ON hooks_app_changedecision
    FOR EACH ROW EXECUTE FUNCTION caduceus_refuse_change();
CREATE TRIGGER immutable BEFORE UPDATE OR DELETE ON hooks_app_outsidereviewer
    FOR EACH ROW EXECUTE FUNCTION caduceus_refuse_change();
"""

CHANGES = """
CREATE FUNCTION caduceus_change_moves() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF TG_OP = 'INSERT' THEN
        IF NEW.state <> 'draft' THEN
            RAISE EXCEPTION 'a change begins as a draft' USING ERRCODE = 'check_violation';
        END IF;
        RETURN NEW;
    END IF;
    IF OLD.state <> NEW.state AND (OLD.state, NEW.state) NOT IN (
        ('draft', 'submitted'), ('draft', 'withdrawn'), ('submitted', 'approved'), ('submitted', 'rejected'),
        ('submitted', 'withdrawn'), ('approved', 'applied'), ('approved', 'withdrawn')
    ) THEN
        RAISE EXCEPTION 'a change cannot go from % to %', OLD.state, NEW.state USING ERRCODE = 'check_violation';
    END IF;
    IF (OLD.author_id, OLD.kind, OLD.team_id) IS DISTINCT FROM (NEW.author_id, NEW.kind, NEW.team_id) THEN
        RAISE EXCEPTION 'a change keeps its author and kind' USING ERRCODE = 'check_violation';
    END IF;
    IF OLD.state = 'draft' AND NEW.state = 'submitted' THEN
        NEW.reviewers_needed := (
            SELECT greatest(1, t.reviewers_per_change) FROM controlplane_team t WHERE t.id = NEW.team_id);
    ELSIF OLD.state <> 'draft' AND (
        OLD.digest, OLD.after, OLD.before, OLD.base_digest, OLD.target_id, OLD.target_label, OLD.reason,
        OLD.reviewers_needed
    ) IS DISTINCT FROM (
        NEW.digest, NEW.after, NEW.before, NEW.base_digest, NEW.target_id, NEW.target_label, NEW.reason,
        NEW.reviewers_needed
    ) THEN
        RAISE EXCEPTION 'a submitted change keeps its content' USING ERRCODE = 'check_violation';
    END IF;
    IF OLD.closed_at IS NOT NULL AND NEW.closed_at IS DISTINCT FROM OLD.closed_at THEN
        RAISE EXCEPTION 'a closed change stays closed' USING ERRCODE = 'check_violation';
    END IF;
    IF NEW.state = 'approved' AND OLD.state = 'submitted' AND (
        SELECT count(*) FROM hooks_app_changedecision d
        WHERE d.change_id = NEW.id AND d.approves AND d.digest = NEW.digest AND d.reviewer_id <> NEW.author_id
    ) < NEW.reviewers_needed THEN
        RAISE EXCEPTION 'a change needs % reviewers other than its author', NEW.reviewers_needed
            USING ERRCODE = 'check_violation';
    END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER moves BEFORE INSERT OR UPDATE ON hooks_app_change
    FOR EACH ROW EXECUTE FUNCTION caduceus_change_moves();

CREATE FUNCTION caduceus_decision_fits() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    proposal record;
BEGIN
    SELECT author_id, state, digest INTO STRICT proposal FROM hooks_app_change WHERE id = NEW.change_id;
    IF NEW.author_id <> proposal.author_id OR NEW.reviewer_id = proposal.author_id THEN
        RAISE EXCEPTION 'an author does not decide about their own change' USING ERRCODE = 'check_violation';
    END IF;
    IF proposal.state <> 'submitted' THEN
        RAISE EXCEPTION 'only a submitted change can be decided' USING ERRCODE = 'check_violation';
    END IF;
    IF NEW.digest <> proposal.digest THEN
        RAISE EXCEPTION 'the change is not what the reviewer saw' USING ERRCODE = 'check_violation';
    END IF;
    IF NOT EXISTS (
        SELECT 1 FROM controlplane_membership m
        WHERE m.team_id = NEW.team_id AND m.user_id = NEW.reviewer_id AND 'reviewer' = ANY (m.roles)
    ) AND NOT EXISTS (
        SELECT 1 FROM hooks_app_outsidereviewer o
        WHERE o.change_id = NEW.change_id AND o.user_id = NEW.reviewer_id
    ) THEN
        RAISE EXCEPTION 'only a reviewer decides about a change' USING ERRCODE = 'check_violation';
    END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER fits BEFORE INSERT ON hooks_app_changedecision
    FOR EACH ROW EXECUTE FUNCTION caduceus_decision_fits();

CREATE FUNCTION caduceus_outsider_fits() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF EXISTS (SELECT 1 FROM hooks_app_change c WHERE c.id = NEW.change_id AND c.author_id = NEW.user_id) THEN
        RAISE EXCEPTION 'an author does not review their own change' USING ERRCODE = 'check_violation';
    END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER fits BEFORE INSERT ON hooks_app_outsidereviewer
    FOR EACH ROW EXECUTE FUNCTION caduceus_outsider_fits();
"""

ACTIVATION = """
CREATE FUNCTION caduceus_approved(p_team uuid, p_kind text, p_target uuid) RETURNS boolean
LANGUAGE sql STABLE AS $$
    SELECT EXISTS (
        SELECT 1 FROM hooks_app_change
        WHERE team_id = p_team AND kind = p_kind AND target_id = p_target AND state = 'approved')
$$;

CREATE FUNCTION caduceus_activation_was_reviewed() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    former uuid := CASE WHEN TG_OP = 'UPDATE' THEN OLD.active_version_id END;
BEGIN
    IF NEW.active_version_id IS DISTINCT FROM former AND NOT EXISTS (
        SELECT 1 FROM hooks_app_change c LEFT JOIN hooks_app_hookversion v ON v.id = NEW.active_version_id
        WHERE c.team_id = NEW.team_id AND c.target_id = NEW.id AND c.state = 'approved' AND (
            (c.kind = 'hook' AND v.hook_id = NEW.id AND v.digest = c.digest)
            OR (c.kind = 'hook_removal' AND NEW.active_version_id IS NULL))
    ) AND NOT EXISTS (
        SELECT 1 FROM hooks_app_breakglass b
        WHERE b.team_id = NEW.team_id AND b.hook_id = NEW.id AND (
            (b.ended_at IS NULL AND b.expires_at > now() AND b.version_id IS NOT DISTINCT FROM NEW.active_version_id)
            OR (b.ended_at = now() AND b.outcome IN ('expired', 'rejected')
                AND b.version_id IS NOT DISTINCT FROM former
                AND b.former_version_id IS NOT DISTINCT FROM NEW.active_version_id))
    ) THEN
        RAISE EXCEPTION 'only a reviewed change decides which version is active' USING ERRCODE = 'check_violation';
    END IF;
    IF TG_OP = 'UPDATE' AND OLD.revoked_at IS NOT NULL AND NEW.revoked_at IS NULL
       AND NOT caduceus_approved(NEW.team_id, 'hook_unrevoke', NEW.id) THEN
        RAISE EXCEPTION 'only a reviewed change lifts a revocation' USING ERRCODE = 'check_violation';
    END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER activation_was_reviewed BEFORE INSERT OR UPDATE ON hooks_app_hook
    FOR EACH ROW EXECUTE FUNCTION caduceus_activation_was_reviewed();

CREATE FUNCTION caduceus_command_stays_revoked() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF (OLD.command, OLD.team_id) IS DISTINCT FROM (NEW.command, NEW.team_id)
       OR NOT caduceus_approved(NEW.team_id, 'command_unrevoke', NEW.id) THEN
        RAISE EXCEPTION 'only a reviewed change lifts a revocation' USING ERRCODE = 'check_violation';
    END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER stays_revoked BEFORE UPDATE ON hooks_app_revokedcommand
    FOR EACH ROW EXECUTE FUNCTION caduceus_command_stays_revoked();

CREATE FUNCTION caduceus_gate_stays_in_profile() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF EXISTS (
        SELECT 1 FROM hooks_app_hook h JOIN hooks_app_hookversion v ON v.id = h.active_version_id
        WHERE h.id = OLD.hook_id AND v.gate
    ) AND NOT caduceus_approved(OLD.team_id, 'profile_hooks', OLD.profile_id)
      AND NOT caduceus_approved(OLD.team_id, 'hook_removal', OLD.hook_id) THEN
        IF TG_OP = 'DELETE' OR NEW.hook_id <> OLD.hook_id OR NEW.profile_id <> OLD.profile_id
           OR (OLD.mode = 'enforce' AND NEW.mode <> 'enforce') THEN
            RAISE EXCEPTION 'only a reviewed change takes a gate out of a profile' USING ERRCODE = 'check_violation';
        END IF;
    END IF;
    RETURN CASE WHEN TG_OP = 'DELETE' THEN OLD ELSE NEW END;
END $$;
CREATE TRIGGER gate_stays BEFORE UPDATE OR DELETE ON hooks_app_profilehook
    FOR EACH ROW EXECUTE FUNCTION caduceus_gate_stays_in_profile();
"""

ALLOWLISTS = """
CREATE FUNCTION caduceus_allowlist_was_reviewed() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF TG_OP = 'INSERT' THEN
        IF NOT EXISTS (
            SELECT 1 FROM hooks_app_change c
            WHERE c.id = NEW.change_id AND c.kind = 'allowlist' AND c.state = 'approved'
              AND c.target_id = NEW.profile_id
        ) THEN
            RAISE EXCEPTION 'only a reviewed change adds to an allowlist' USING ERRCODE = 'check_violation';
        END IF;
        RETURN NEW;
    END IF;
    IF (OLD.profile_id, OLD.kind, OLD.scope, OLD.value, OLD.reason, OLD.added_by_id, OLD.change_id, OLD.created_at)
       IS DISTINCT FROM
       (NEW.profile_id, NEW.kind, NEW.scope, NEW.value, NEW.reason, NEW.added_by_id, NEW.change_id, NEW.created_at)
       OR (OLD.ended_at IS NOT NULL AND NEW.ended_at IS DISTINCT FROM OLD.ended_at)
       OR (OLD.expires_at IS NOT NULL AND (NEW.expires_at IS NULL OR NEW.expires_at > OLD.expires_at)) THEN
        RAISE EXCEPTION 'an allowlist entry only becomes narrower' USING ERRCODE = 'check_violation';
    END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER was_reviewed BEFORE INSERT OR UPDATE ON hooks_app_allowlistentry
    FOR EACH ROW EXECUTE FUNCTION caduceus_allowlist_was_reviewed();
"""

OUTSIDE = """
CREATE FUNCTION caduceus_outside_reviews(p_user bigint)
RETURNS TABLE (team_id uuid, change_id uuid)
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = public, pg_temp AS $$
    SELECT o.team_id, o.change_id FROM hooks_app_outsidereviewer o
    JOIN controlplane_team t ON t.id = o.team_id AND t.archived_at IS NULL
    WHERE o.user_id = p_user
$$;
"""
OUTSIDE_SIGNATURES = ["caduceus_outside_reviews(bigint)"]
