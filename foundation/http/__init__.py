"""How the portal speaks HTTP: problem documents, pages, idempotency, ETags, strict JSON."""
