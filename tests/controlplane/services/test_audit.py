"""The audit chain: what is written stays, and every kind of tampering is found."""

from __future__ import annotations

import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from uuid import UUID

import psycopg
import pytest
from django.conf import settings
from django.core.management import CommandError, call_command
from django.db import DatabaseError, connection, transaction

from controlplane import scope
from controlplane.actor import SYSTEM
from controlplane.errors import Invalid
from controlplane.lib.environment import Environment
from controlplane.models import AuditCheckpoint, AuditEntry, SealCursor
from controlplane.services import audit, checkpoints, exports, profiles, sealing, teams
from controlplane.services.verification import Report, Verifier
from tests.conftest import World


@pytest.fixture
def owner(committed: None) -> Iterator[psycopg.Connection]:
    """Somebody with the database owner's password: the strongest attacker that the chain must expose."""
    database = Environment().database("DATABASE_OWNER_URL", default="", engine="", pool={})
    with psycopg.connect(
        dbname=database["NAME"],
        user=database["USER"],
        password=database["PASSWORD"],
        host=database["HOST"],
        port=database["PORT"] or None,
        autocommit=True,
    ) as connected:
        yield connected


@pytest.fixture
def chain(committed_world: World) -> UUID:
    """A team with a chain of a dozen links."""
    team = committed_world.team
    with scope.team(team.pk), transaction.atomic():
        for number in range(8):
            profiles.create(team=team, actor=SYSTEM, name=f"bot-{number}", description="=HYPERLINK(1)")
    return team.pk


def verify(team_id: UUID, directory: Path | None = None) -> Report:
    """Verify one chain as the command does."""
    with scope.operator(), transaction.atomic():
        return Verifier(team_id, directory=directory or settings.CHECKPOINT_DIR, public_key=checkpoints.known_key).run()


def problem(team_id: UUID) -> str:
    """What verifying finds."""
    finding = verify(team_id, settings.CHECKPOINT_DIR).finding
    return finding.problem if finding else ""


def tamper(owner: psycopg.Connection, *statements: str, **values: object) -> None:
    """Change rows behind the triggers' back, as the owner could."""
    with owner.transaction():
        owner.execute("ALTER TABLE controlplane_auditentry DISABLE TRIGGER USER")
        for statement in statements:
            assert owner.execute(statement, values).rowcount >= 1
        owner.execute("SET CONSTRAINTS ALL IMMEDIATE")
        owner.execute("ALTER TABLE controlplane_auditentry ENABLE TRIGGER USER")


def test_an_untouched_chain_is_intact(chain: UUID) -> None:
    report = verify(chain)
    assert report.intact
    assert report.entries == report.last > 8


def test_an_altered_field_is_found(chain: UUID, owner: psycopg.Connection) -> None:
    tamper(
        owner,
        "UPDATE controlplane_auditentry SET actor_label = 'Mallory' WHERE team_id = %(team)s AND seq = 5",
        team=chain,
    )
    finding = verify(chain).finding
    assert finding is not None
    assert finding.seq == 5
    assert "altered" in finding.problem


def test_altered_details_are_found(chain: UUID, owner: psycopg.Connection) -> None:
    tamper(
        owner,
        "UPDATE controlplane_auditentry SET details = details || '{\"extra\": 1}' WHERE team_id = %(team)s AND seq = 3",
        team=chain,
    )
    finding = verify(chain).finding
    assert finding is not None
    assert finding.seq == 3


def test_a_deleted_row_is_found(chain: UUID, owner: psycopg.Connection) -> None:
    tamper(owner, "DELETE FROM controlplane_auditentry WHERE team_id = %(team)s AND seq = 4", team=chain)
    finding = verify(chain).finding
    assert finding is not None
    assert finding.seq == 4
    assert "missing" in finding.problem


def test_swapped_rows_are_found(chain: UUID, owner: psycopg.Connection) -> None:
    tamper(
        owner,
        "UPDATE controlplane_auditentry SET seq = -1 WHERE team_id = %(team)s AND seq = 4",
        "UPDATE controlplane_auditentry SET seq = 4 WHERE team_id = %(team)s AND seq = 5",
        "UPDATE controlplane_auditentry SET seq = 5 WHERE team_id = %(team)s AND seq = -1",
        team=chain,
    )
    finding = verify(chain).finding
    assert finding is not None
    assert finding.seq == 4


def test_a_cut_off_tail_is_found(chain: UUID, owner: psycopg.Connection) -> None:
    tamper(owner, "DELETE FROM controlplane_auditentry WHERE team_id = %(team)s AND seq > 6", team=chain)
    finding = verify(chain).finding
    assert finding is not None
    assert finding.seq == 7
    assert "cut off" in finding.problem


def test_a_cut_off_tail_with_a_matching_head_is_found_by_the_kept_checkpoint(
    chain: UUID, owner: psycopg.Connection, settings: object, tmp_path: Path
) -> None:
    settings.CHECKPOINT_DIR = tmp_path  # type: ignore[attr-defined]
    checkpoints.take(chain)
    tamper(
        owner,
        "DELETE FROM controlplane_auditentry WHERE team_id = %(team)s AND seq > 6",
        """UPDATE controlplane_audithead SET seq = 6, hash = (
            SELECT hash FROM controlplane_auditentry WHERE team_id = %(team)s AND seq = 6) WHERE team_id = %(team)s""",
        "DELETE FROM controlplane_auditcheckpoint WHERE team_id = %(team)s",
        team=chain,
    )
    finding = verify(chain).finding
    assert finding is not None
    assert "cut off" in finding.problem


def test_a_chain_replaced_as_a_whole_is_found_by_the_kept_checkpoint(
    chain: UUID, owner: psycopg.Connection, settings: object, tmp_path: Path
) -> None:
    settings.CHECKPOINT_DIR = tmp_path  # type: ignore[attr-defined]
    checkpoints.take(chain)
    before = verify(chain)
    assert before.intact
    tamper(
        owner,
        "DELETE FROM controlplane_auditentry WHERE team_id = %(team)s",
        "UPDATE controlplane_audithead SET seq = 0, hash = decode(repeat('00', 32), 'hex') WHERE team_id = %(team)s",
        "DELETE FROM controlplane_auditcheckpoint WHERE team_id = %(team)s",
        team=chain,
    )
    with scope.team(chain), transaction.atomic():
        for _ in range(before.last + 2):
            audit.record("team.changed", actor=SYSTEM, team=chain)
    finding = verify(chain).finding
    assert finding is not None
    assert "replaced" in finding.problem


def test_a_forged_checkpoint_is_found(chain: UUID, settings: object, tmp_path: Path) -> None:
    settings.CHECKPOINT_DIR = tmp_path  # type: ignore[attr-defined]
    checkpoints.take(chain)
    path = tmp_path / f"{chain}.jsonl"
    line = json.loads(path.read_text())
    path.write_text(json.dumps({**line, "hash": "00" * 32}) + "\n")
    finding = verify(chain, tmp_path).finding
    assert finding is not None
    assert "signature" in finding.problem


def test_a_checkpoint_file_that_is_gone_or_unreadable_is_found(chain: UUID, settings: object, tmp_path: Path) -> None:
    settings.CHECKPOINT_DIR = tmp_path  # type: ignore[attr-defined]
    checkpoints.take(chain)
    assert verify(chain).intact
    path = tmp_path / f"{chain}.jsonl"
    kept = path.read_bytes()
    for content in (kept[:40], kept + b"{}\n", b"\xff\n", b"[1]\n"):
        path.write_bytes(content)
        assert "is not a checkpoint" in problem(chain)
    path.unlink()
    assert "are gone" in problem(chain)


def test_a_checkpoint_that_cannot_be_kept_is_not_taken(chain: UUID, settings: object, tmp_path: Path) -> None:
    settings.CHECKPOINT_DIR = tmp_path / "file"  # type: ignore[attr-defined]
    (tmp_path / "file").write_text("")
    with pytest.raises(OSError, match="file"):
        checkpoints.take(chain)
    settings.CHECKPOINT_DIR = tmp_path  # type: ignore[attr-defined]
    assert checkpoints.take(chain) is not None


@pytest.mark.parametrize(
    "column",
    ["id", "at", "action", "actor_kind", "actor_id", "actor_label", "target_kind", "target_id", "target_label",
     "request_id", "details", "hash"],
)  # fmt: skip
def test_every_field_is_covered(chain: UUID, owner: psycopg.Connection, column: str) -> None:
    values = {
        "id": "gen_random_uuid()", "at": "at + interval '1 microsecond'", "details": "'{}'", "hash": "sha256(hash)"
    }  # fmt: skip
    value = values.get(column, f"{column} || 'x'")
    forged = f"UPDATE controlplane_auditentry SET {column} = {value} WHERE team_id = %(team)s AND seq = 7"
    tamper(owner, forged.replace("'{}'", "'{\"a\": 1}'"), team=chain)
    finding = verify(chain).finding
    assert finding is not None
    assert finding.seq == 7


def test_an_entry_beyond_the_head_is_found(chain: UUID, owner: psycopg.Connection) -> None:
    tamper(
        owner,
        "UPDATE controlplane_audithead SET (seq, hash) = (SELECT seq, hash FROM controlplane_auditentry "
        "WHERE team_id = %(team)s AND seq = 6) WHERE team_id = %(team)s",
        team=chain,
    )
    assert "beyond the chain's head" in problem(chain)


def test_a_prefix_that_nobody_removed_is_found(chain: UUID, owner: psycopg.Connection) -> None:
    """Marking a checkpoint as pruned is one UPDATE; the chain itself must say that retention was at work."""
    checkpoints.take(chain)
    with scope.team(chain), transaction.atomic():
        audit.record("team.changed", actor=SYSTEM, team=chain)
    pruned = "UPDATE controlplane_auditcheckpoint SET pruned = true WHERE team_id = %(team)s"
    tamper(owner, pruned, team=chain)
    assert "no entry says" in problem(chain)
    tamper(owner, "DELETE FROM controlplane_auditentry WHERE team_id = %(team)s AND seq < 9", team=chain)
    assert "no entry says" in problem(chain)


def test_a_chain_that_grows_while_it_is_verified_is_not_blamed(chain: UUID) -> None:
    def grow() -> None:
        with scope.team(chain), transaction.atomic():
            audit.record("team.changed", actor=SYSTEM, team=chain)
        connection.close()

    with scope.operator(), transaction.atomic():
        verifier = Verifier(chain, directory=settings.CHECKPOINT_DIR, public_key=checkpoints.known_key)
        with ThreadPoolExecutor(1) as pool:
            pool.submit(grow).result()
            report = verifier.run(lambda count: None)
            pool.submit(checkpoints.take, chain).result()
    assert report.intact, report.finding
    assert verify(chain).last == report.last + 1


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE controlplane_auditentry SET action = 'x' WHERE team_id = %s",
        "DELETE FROM controlplane_auditentry WHERE team_id = %s",
        "INSERT INTO controlplane_auditentry SELECT * FROM controlplane_auditentry WHERE team_id = %s",
        "UPDATE controlplane_audithead SET seq = 0 WHERE team_id = %s",
        "UPDATE controlplane_auditcheckpoint SET seq = 0 WHERE team_id = %s",
    ],
)
def test_the_runtime_role_cannot_touch_the_chain(world: World, statement: str) -> None:
    with scope.team(world.team.pk), pytest.raises(DatabaseError, match="permission denied"), transaction.atomic():
        connection.cursor().execute(statement, [world.team.pk])


def test_truncate_is_refused_for_everybody(owner: psycopg.Connection) -> None:
    with pytest.raises(psycopg.errors.RestrictViolation):
        owner.execute("TRUNCATE controlplane_auditentry CASCADE")
    with pytest.raises(DatabaseError, match="permission denied"), transaction.atomic():
        connection.cursor().execute("TRUNCATE controlplane_auditentry")


def test_no_commit_no_entry(world: World) -> None:
    with scope.team(world.team.pk):
        before = AuditEntry.objects.count()
        with pytest.raises(RuntimeError), transaction.atomic():
            audit.record("team.changed", actor=SYSTEM, team=world.team)
            raise RuntimeError
        assert AuditEntry.objects.count() == before


def test_an_entry_for_another_team_is_refused(world: World) -> None:
    with scope.team(world.team.pk), pytest.raises(DatabaseError, match="outside the scope"), transaction.atomic():
        audit.record("team.changed", actor=SYSTEM, team=world.other_team.pk)


def test_an_unregistered_action_is_refused(world: World) -> None:
    with scope.team(world.team.pk), pytest.raises(audit.UnknownAction):
        audit.record("nobody.knows", actor=SYSTEM, team=world.team)


def test_secrets_in_details_are_masked(world: World) -> None:
    with scope.team(world.team.pk):
        audit.record(
            "team.changed", actor=SYSTEM, team=world.team, details={"password": "hunter2", "name": "cad_" + "a" * 43}
        )
        details = AuditEntry.objects.in_order().last().details
    assert "hunter2" not in json.dumps(details)
    assert "cad_" + "a" * 43 not in json.dumps(details)


def test_retention_removes_a_prefix_behind_a_checkpoint(chain: UUID, owner: psycopg.Connection) -> None:
    checkpoints.take(chain)
    with owner.transaction():
        at = "2020-01-01T00:00:00Z"
        owner.execute("DELETE FROM controlplane_auditcheckpoint WHERE team_id = %s", [chain])
    with scope.team(chain), transaction.atomic():
        old = AuditCheckpoint(team_id=chain, at=checkpoints.parse_datetime(at), key_id=checkpoints.signing_key().key_id)
        entry = AuditEntry.objects.get(seq=5)
        old.seq, old.hash = entry.seq, entry.hash
        old.signature = checkpoints.signing_key().sign(checkpoints.statement(old))
        old.save(force_insert=True)
        team = teams.Team.objects.get(pk=chain)
        assert checkpoints.prune(team=team) == 5
    report = verify(chain, Path("/nonexistent"))
    assert report.intact
    assert report.first == 6


def test_the_command_says_what_is_wrong_in_one_line(chain: UUID, tmp_path: Path) -> None:
    with scope.operator(), transaction.atomic():
        slug = teams.Team.objects.get(pk=chain).slug
    for arguments, line in (
        (["export", "--team", slug, "--output", str(tmp_path)], "cannot be written"),
        (["export", "--team", "nobody"], "no team called nobody"),
        (["verify", "--checkpoints", str(tmp_path / "none")], "no directory"),
        (["prune", "--team", slug, "--days", "0"], "at least one day"),
    ):
        with pytest.raises(CommandError, match=line):
            call_command("audit", *arguments)


def test_an_export_by_command_is_in_the_audit_too(chain: UUID, tmp_path: Path) -> None:
    with scope.team(chain), transaction.atomic():
        slug, before = teams.Team.objects.get().slug, AuditEntry.objects.count()
    call_command("audit", "export", "--team", slug, "--output", str(tmp_path / "file"))
    with scope.team(chain), transaction.atomic():
        newest = AuditEntry.objects.in_order().last()
    assert (newest.action, newest.details["count"]) == ("audit.exported", before)
    assert len((tmp_path / "file").read_text().splitlines()) >= before


@pytest.mark.parametrize("days", [0, -5])
def test_retention_keeps_at_least_a_day(world: World, days: int) -> None:
    with scope.team(world.team.pk), pytest.raises(Invalid):
        checkpoints.prune(team=world.team, days=days)


def test_new_rows_begin_above_the_sealed_ones_after_a_restore(db: None) -> None:
    SealCursor.objects.create(source="restored", high=10**15)
    sealing.lift()
    with connection.cursor() as cursor:
        cursor.execute("SELECT setconfig FROM pg_db_role_setting WHERE setrole = 0")
        assert [f"caduceus.commit_base={10**15}"] in [row[0] for row in cursor.fetchall()]


def test_csv_cells_cannot_become_formulas(world: World) -> None:
    with scope.team(world.team.pk):
        profile = profiles.create(team=world.team, actor=SYSTEM, name="evil", description="x")
        profiles.change(profile=profile, actor=SYSTEM, values={"description": "=cmd|' /C calc'!A0"})
        audit.record("team.changed", actor=world.alice.actor, team=world.team)
        rows = AuditEntry.objects.select_related("team").in_order()
        for row in rows:
            row.actor_label = "=1+1"
        text = "".join(exports.csv(rows, []))
    assert ",=1+1" not in text
    assert "'=1+1" in text
