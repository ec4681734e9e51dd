"""The nouns that both apps stand on."""

from controlplane.models.audit import AuditCheckpoint, AuditEntry, AuditHead, SealCursor
from controlplane.models.idempotency import IdempotencyKey
from controlplane.models.profile import Profile
from controlplane.models.team import Membership, Role, Team
from controlplane.models.tenant import TeamForeignKey, TenantModel, TenantQuerySet
from controlplane.models.token import Ability, Token
from controlplane.models.user import User

__all__ = [
    "Ability",
    "AuditCheckpoint",
    "AuditEntry",
    "AuditHead",
    "IdempotencyKey",
    "Membership",
    "Profile",
    "Role",
    "SealCursor",
    "Team",
    "TeamForeignKey",
    "TenantModel",
    "TenantQuerySet",
    "Token",
    "User",
]
