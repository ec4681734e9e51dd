"""The configuration number in Postgres: triggers raise it, so no code path can forget to."""

COUNT = """
-- A sequence, because it does not roll back: a number never stands for two configurations.
CREATE SEQUENCE caduceus_configuration_numbers START 2;
CREATE FUNCTION caduceus_configuration_begins() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp AS $$
BEGIN
    INSERT INTO hooks_app_configuration (team_id, number) VALUES (NEW.id, 1) ON CONFLICT DO NOTHING;
    RETURN NULL;
END $$;
CREATE TRIGGER configuration_begins AFTER INSERT ON controlplane_team
    FOR EACH ROW EXECUTE FUNCTION caduceus_configuration_begins();
INSERT INTO hooks_app_configuration (team_id, number) SELECT id, 1 FROM controlplane_team;

CREATE FUNCTION caduceus_configuration_changed() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp AS $$
DECLARE
    team uuid := CASE TG_OP WHEN 'DELETE' THEN OLD.team_id ELSE NEW.team_id END;
BEGIN
    UPDATE hooks_app_configuration SET number = nextval('caduceus_configuration_numbers') WHERE team_id = team;
    PERFORM pg_notify('caduceus_configuration', team::text);
    RETURN NULL;
END $$;
"""

WATCH = """
CREATE TRIGGER configuration_changed AFTER INSERT OR UPDATE OR DELETE ON {table}
    FOR EACH ROW EXECUTE FUNCTION caduceus_configuration_changed();
"""
WATCHED = (
    "controlplane_profile",
    "hooks_app_hook",
    "hooks_app_profilehook",
    "hooks_app_teamhook",
    "hooks_app_profilemode",
    "hooks_app_profilesecret",
    "hooks_app_allowlistentry",
    "hooks_app_grant",
    "hooks_app_switch",
    "hooks_app_approvalpolicy",
)
TRIGGERS = "".join(WATCH.format(table=table) for table in WATCHED)
