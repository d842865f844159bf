"""One authority and one server certificate, made with the openssl command."""

from __future__ import annotations

import subprocess
from dataclasses import dataclass
from pathlib import Path

_DAYS = "7"
_CURVE = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes")


@dataclass(frozen=True, slots=True, kw_only=True)
class Certificates:
    """Files in one folder; made by `make`."""

    folder: Path

    @property
    def authority(self) -> Path:
        """The authority's certificate."""
        return self.folder / "ca.pem"

    @property
    def certificate(self) -> Path:
        """The server's certificate."""
        return self.folder / "server.pem"

    @property
    def key(self) -> Path:
        """The server's key."""
        return self.folder / "server-key.pem"

    @property
    def service_account_key(self) -> Path:
        """Signs and verifies service account tokens."""
        return self.folder / "service-account-key.pem"

    def make(self, *, addresses: tuple[str, ...], names: tuple[str, ...]) -> None:
        """Write all files; the server answers to `addresses` and `names`."""
        self.folder.mkdir(parents=True, exist_ok=True)
        authority_key = self.folder / "ca-key.pem"
        subject = ["-subj", "/CN=kubernetes-ca"]
        _openssl("req", "-x509", *_CURVE, *subject, "-days", _DAYS, "-keyout", authority_key, "-out", self.authority)
        alternatives = ",".join([*(f"IP:{address}" for address in addresses), *(f"DNS:{name}" for name in names)])
        _openssl(
            *("req", "-x509", *_CURVE, "-subj", "/CN=kubernetes", "-days", _DAYS, "-addext", f"subjectAltName={alternatives}"),
            *("-addext", "basicConstraints=critical,CA:FALSE"),
            *("-CA", self.authority, "-CAkey", authority_key, "-keyout", self.key, "-out", self.certificate),
        )
        _openssl("genrsa", "-out", self.service_account_key, "2048")


def _openssl(*arguments: str | Path) -> None:
    subprocess.run(["openssl", *arguments], check=True, capture_output=True)
