"""Static files with a fingerprint in their names once `collectstatic` has run, and plain ones before."""

from __future__ import annotations

from typing_extensions import override
from whitenoise.storage import CompressedManifestStaticFilesStorage  # type: ignore[import-untyped]


class FingerprintedStorage(CompressedManifestStaticFilesStorage):  # type: ignore[misc]
    """Without a manifest (tests, a bare checkout) names stay as they are and the finders serve them."""

    @override
    def stored_name(self, name: str) -> str:
        stored: str = super().stored_name(name) if self.hashed_files else name
        return stored
