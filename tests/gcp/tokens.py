"""Who asks: service-account keys, the tokens that Google gives for them, and who may call.

google-auth either exchanges a signed assertion at the token endpoint or, for most clients, sends a token that it
signed itself; both signatures are checked here with the key's own certificate.
"""

from __future__ import annotations

import datetime
import json
import secrets
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import rsa
from google.auth import exceptions, jwt

from tests.gcp.errors import GoogleError
from tests.gcp.routing import Call

if TYPE_CHECKING:
    from tests.gcp.google import Google

ACCOUNT = "tester@demo-project.iam.gserviceaccount.com"
TOKEN = "ya29.stand-in"


class Tokens:
    """revoked: as if the key was deleted, or the user's login has ended: nothing is granted any more.
    granted: the access token that everybody is granted, for one that others than Google have to know as well (a real
    Kubernetes API server: Kubernetes.hand_out); empty for a new one each time."""

    def __init__(self, google: Google) -> None:
        self.google = google
        self.accounts = {TOKEN: ACCOUNT}
        self.certificates: dict[str, bytes] = {}
        self.revoked = False
        self.granted = ""

    def key_file(self, project: str, account: str = ACCOUNT) -> dict[str, Any]:
        """A new key of that service account, as the JSON that `gcloud iam service-accounts keys create` writes."""
        key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
        key_id = secrets.token_hex(20)
        self.certificates[key_id] = _certificate(key, account)
        private = key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
        return {
            "type": "service_account",
            "project_id": project,
            "private_key_id": key_id,
            "private_key": private.decode(),
            "client_email": account,
            "client_id": "1",
            "token_uri": f"{self.google.endpoint}/token",
        }

    def grant(self, call: Call) -> dict[str, Any]:
        """The answer of https://oauth2.googleapis.com/token."""
        form = {key: values[0] for key, values in parse_qs(call.raw.decode()).items()}
        assertion = form.get("assertion", "")
        account = "" if self.revoked else self._signed_by(assertion)
        if not account:
            raise TokenRefusedError("invalid_grant", "Invalid JWT Signature.")
        token = self.granted or f"ya29.{secrets.token_urlsafe(24)}"
        self.accounts[token] = account
        return {"access_token": token, "expires_in": 3599, "token_type": "Bearer"}

    def caller(self, call: Call) -> str:
        """The account that the call is made by. Raises UNAUTHENTICATED."""
        token = call.headers.get("authorization", "").removeprefix("Bearer ")
        account = "" if self.revoked else self.accounts.get(token) or self._signed_by(token)
        if account:
            return account
        raise GoogleError(
            "UNAUTHENTICATED",
            "Request had invalid authentication credentials. Expected OAuth 2 access token, login cookie or other valid"
            " authentication credential. See https://developers.google.com/identity/sign-in/web/devconsole-project.",
        )

    def _signed_by(self, token: str) -> str:
        if token.count(".") != 2:
            return ""
        try:
            return str(jwt.decode(token, certs=self.certificates)["iss"])
        except (ValueError, exceptions.GoogleAuthError):
            return ""


class TokenRefusedError(GoogleError):
    """The token endpoint has a form of its own for errors."""

    def __init__(self, error: str, description: str) -> None:
        super().__init__("INVALID_ARGUMENT", description)
        self.error = error

    def as_json(self) -> dict[str, Any]:
        return json.loads(json.dumps({"error": self.error, "error_description": self.message}))


def _certificate(key: rsa.RSAPrivateKey, account: str) -> bytes:
    # RFC 5280: a common name has at most 64 characters.
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, account[:64])])
    now = datetime.datetime.now(datetime.UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=1))
        .sign(key, hashes.SHA256())
    )
    return certificate.public_bytes(serialization.Encoding.PEM)
