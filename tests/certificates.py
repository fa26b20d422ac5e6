"""Certificates for tests, made by the `openssl` of the machine: an authority of one's own, and who it vouches for."""

import subprocess
from dataclasses import dataclass
from pathlib import Path

KEY = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1")


@dataclass(frozen=True, slots=True, kw_only=True)
class Issued:
    certificate: Path
    key: Path

    def in_one_file(self) -> Path:
        """The key, then the certificate, as PEM stores of Java are."""
        both = self.certificate.with_suffix(".both.pem")
        both.write_text(self.key.read_text() + self.certificate.read_text())
        return both


class Authority:
    def __init__(self, directory: Path) -> None:
        directory.mkdir(exist_ok=True)
        self._directory = directory
        self.certificate = directory / "authority.pem"
        self._key = directory / "authority.key.pem"
        _openssl("req", "-x509", "-nodes", *KEY, "-subj", "/CN=authority", *_to(self.certificate, self._key))

    def issue(self, name: str, *hosts: str, password: str = "") -> Issued:
        """For hosts as certificates name them: `IP:127.0.0.1`, `DNS:localhost`."""
        issued = Issued(certificate=self._directory / f"{name}.pem", key=self._directory / f"{name}.key.pem")
        secrecy = ["-passout", f"pass:{password}"] if password else ["-nodes"]
        signing = ["-CA", str(self.certificate), "-CAkey", str(self._key)]
        alternatives = ["-addext", f"subjectAltName={','.join(hosts)}"] if hosts else []
        target = _to(issued.certificate, issued.key)
        _openssl("req", "-x509", *secrecy, *KEY, "-subj", f"/CN={name}", *signing, *alternatives, *target)
        return issued


def _to(certificate: Path, key: Path) -> tuple[str, ...]:
    return ("-out", str(certificate), "-keyout", str(key))


def _openssl(*arguments: str) -> None:
    subprocess.run(["openssl", *arguments], check=True, capture_output=True)
