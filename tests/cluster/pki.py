"""Certificates of a test cluster, and the kubeconfig files that hold them. Made anew with each cluster."""

from dataclasses import dataclass
from pathlib import Path

import trustme
import yaml
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec


@dataclass(frozen=True)
class Authority:
    """A certificate authority and the folder that its certificates are kept in, readable by their owner only."""

    folder: Path
    authority: trustme.CA

    @classmethod
    def create(cls, folder: Path) -> "Authority":
        folder.mkdir(parents=True, mode=0o700)
        made = cls(folder, trustme.CA(organization_name="maxtext-multislice test cluster"))
        made.authority.cert_pem.write_to_path(made.certificate)
        made._private("ca.key", made.authority.private_key_pem.bytes())
        return made

    @classmethod
    def load(cls, folder: Path) -> "Authority":
        """The authority that `create` has made, for a node that comes later."""
        return cls(folder, trustme.CA.from_pem((folder / "ca.crt").read_bytes(), (folder / "ca.key").read_bytes()))

    @property
    def certificate(self) -> Path:
        return self.folder / "ca.crt"

    def issue(self, name: str, *identities: str, user: str | None = None, group: str | None = None) -> None:
        """Writes NAME.crt and NAME.key, for a server of these names and addresses, or for a user of Kubernetes."""
        # Go refuses the empty list of names that a certificate without one would have.
        names = identities or (f"{name}.invalid",)
        issued = self.authority.issue_cert(*names, common_name=user, organization_name=group)
        chain = b"".join(blob.bytes() for blob in issued.cert_chain_pems)
        (self.folder / f"{name}.crt").write_bytes(chain)
        self._private(f"{name}.key", issued.private_key_pem.bytes())

    def signing_key(self, name: str) -> Path:
        """A key that the API server signs service accounts' tokens with."""
        key = ec.generate_private_key(ec.SECP256R1())
        form = serialization.PrivateFormat.TraditionalOpenSSL
        return self._private(name, key.private_bytes(serialization.Encoding.PEM, form, serialization.NoEncryption()))

    def user(self, name: str, server: str, user: str, group: str | None = None) -> Path:
        """A kubeconfig file for a user with a certificate of its own."""
        self.issue(name, user=user, group=group)
        certificate = {"client-certificate": f"{name}.crt", "client-key": f"{name}.key"}
        return self.kubeconfig(name, server, certificate)

    def kubeconfig(self, name: str, server: str, credentials: dict[str, str]) -> Path:
        """NAME.kubeconfig with these credentials (the `user` part of a kubeconfig file)."""
        document = {
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": "test",
            "clusters": [{"name": "test", "cluster": {"server": server, "certificate-authority": "ca.crt"}}],
            "users": [{"name": name, "user": credentials}],
            "contexts": [{"name": "test", "context": {"cluster": "test", "user": name}}],
        }
        return self._private(f"{name}.kubeconfig", yaml.safe_dump(document).encode())

    def _private(self, name: str, content: bytes) -> Path:
        path = self.folder / name
        path.touch(mode=0o600)
        path.write_bytes(content)
        return path
