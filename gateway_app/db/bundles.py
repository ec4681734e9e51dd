"""Bundles in Postgres: only what is in force gets in, serials grow, and whoever waits is told."""

IMMUTABLE = """
CREATE TRIGGER immutable BEFORE UPDATE OR DELETE ON gateway_app_profileversion
    FOR EACH ROW EXECUTE FUNCTION caduceus_refuse_change();
CREATE TRIGGER immutable BEFORE UPDATE OR DELETE ON gateway_app_bundle
    FOR EACH ROW EXECUTE FUNCTION caduceus_refuse_change();
"""

VERSIONS = """
CREATE FUNCTION caduceus_version_is_approved() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    odd text;
BEGIN
    SELECT h ->> 'name' INTO odd FROM jsonb_array_elements(NEW.content -> 'hooks') AS h
    WHERE NOT EXISTS (
        SELECT 1 FROM hooks_app_hook k JOIN hooks_app_hookversion v ON v.id = k.active_version_id
        WHERE k.team_id = NEW.team_id AND k.name = h ->> 'name' AND v.digest = h ->> 'digest')
    LIMIT 1;
    IF odd IS NOT NULL THEN
        RAISE EXCEPTION 'the hook % is not in force with these bytes', odd USING ERRCODE = 'check_violation';
    END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER is_approved BEFORE INSERT ON gateway_app_profileversion
    FOR EACH ROW EXECUTE FUNCTION caduceus_version_is_approved();
"""

SERIALS = """
CREATE FUNCTION caduceus_serial_grows() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    odd text;
BEGIN
    IF NEW.serial <> 1 + coalesce(
        (SELECT max(b.serial) FROM gateway_app_bundle b WHERE b.profile_id = NEW.profile_id), 0
    ) THEN
        RAISE EXCEPTION 'serials of a profile count up by one' USING ERRCODE = 'check_violation';
    END IF;
    SELECT h ->> 'name' INTO odd
    FROM gateway_app_profileversion w, jsonb_array_elements(w.content -> 'hooks') AS h
    WHERE w.id = NEW.version_id AND h ->> 'state' = 'active' AND EXISTS (
        SELECT 1 FROM hooks_app_hook k
        WHERE k.team_id = NEW.team_id AND k.name = h ->> 'name' AND k.revoked_at IS NOT NULL)
    LIMIT 1;
    IF odd IS NOT NULL THEN
        RAISE EXCEPTION 'the hook % is revoked: no bundle carries it as active', odd USING ERRCODE = 'check_violation';
    END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER serial_grows BEFORE INSERT ON gateway_app_bundle
    FOR EACH ROW EXECUTE FUNCTION caduceus_serial_grows();
"""

WAKE = """
CREATE FUNCTION caduceus_bundles_changed() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    PERFORM pg_notify('caduceus_configuration', 'bundles:' || NEW.profile_id::text);
    RETURN NULL;
END $$;
CREATE TRIGGER bundles_changed AFTER INSERT OR UPDATE OF stable_id, candidate_id, stage, revision ON gateway_app_rollout
    FOR EACH ROW EXECUTE FUNCTION caduceus_bundles_changed();
CREATE TRIGGER configuration_changed AFTER INSERT OR UPDATE OR DELETE ON gateway_app_profilesettings
    FOR EACH ROW EXECUTE FUNCTION caduceus_configuration_changed();
"""
