"""The admin site: review, consent, approvals and the audit, for people."""
