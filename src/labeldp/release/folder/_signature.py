"""Signatures of release folders: who made a release, beside what it states."""

from __future__ import annotations

import json
from contextlib import suppress
from pathlib import Path

from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
    load_pem_private_key,
    load_pem_public_key,
)

from labeldp._own_files import check_new_file, write_new_file
from labeldp._strict_json import strict_json
from labeldp.errors import InputError, VerificationError
from labeldp.release.folder._certificate import Certificate
from labeldp.release.folder._limits import opened
from labeldp.release.folder._staging import CERTIFICATE, SIGNATURE, add_file, local_copy, part_of
from labeldp.release.tables import Place, disk_path, place_of

_SCHEMA = "labeldp/signature/1"
_PUBLIC = ".pub"
_MOST_BYTES = 1 << 12


def make_key(path: str | Path) -> tuple[Path, Path]:
    """Make a key pair for signing releases.

    Args:
        path: A file that does not exist yet, for the private key; its owner alone may read it. The public key is
            written beside it, with the ending ``.pub``.

    Returns:
        The files of the private and of the public key.

    Raises:
        OutputError: A file exists, or cannot be written.

    References:
        Bernstein et al. 2012 and RFC 8032, for Ed25519.

    Example:
        >>> import tempfile
        >>> private, public = make_key(tempfile.mkdtemp() + "/office")
        >>> private.name, public.name
        ('office', 'office.pub')
    """
    private, key = disk_path(path), Ed25519PrivateKey.generate()
    public = private.with_name(private.name + _PUBLIC)
    check_new_file(public)
    write_new_file(private, key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()), private=True)
    shared = key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    write_new_file(public, shared, private=False)
    return private, public


def private_key(path: str | Path) -> Ed25519PrivateKey:
    """Read a private key."""
    file, key = disk_path(path), None
    with suppress(OSError, ValueError, TypeError, UnsupportedAlgorithm):
        key = load_pem_private_key(_read(file), password=None)
    if not isinstance(key, Ed25519PrivateKey):
        raise InputError(f"expected a private key in {path}, found none; make one with 'labeldp key'")
    return key


def sign(directory: str | Place, key: str | Path | Ed25519PrivateKey, certificate: Certificate | None = None) -> Place:
    """Sign a release folder: its certificate, and with it every file whose digest the certificate lists.

    Args:
        directory: The folder of a release that is not signed yet: a path, or an address such as ``s3://bucket/shared``.
        key: A private key, or its file.
        certificate: The certificate that is signed, as ``release_table`` returns it; by default the one that lies in
            the folder, which in a store may not be the one that was written there.

    Returns:
        The file of the signature, in the folder.

    Raises:
        InputError: There is no such key, or no release.
        OutputError: The folder is signed already, or a store does not take the signature.
        VerificationError: Another certificate lies in the folder.
    """
    place = place_of(directory)
    private = key if isinstance(key, Ed25519PrivateKey) else private_key(key)
    with local_copy(place, only=CERTIFICATE) as folder:
        try:
            body = _signed(folder)
        except OSError:
            raise InputError(f"there is no release with a {CERTIFICATE} in {place}") from None
        if certificate is not None and body != _purpose(certificate.to_json().encode()):
            raise VerificationError(
                f"expected the certificate of this release in {place}, found another; do not use it"
            )
        path = part_of(folder, SIGNATURE)
        write_new_file(path, _file_of(body, private), private=False)
        return add_file(place, path)


def is_signed_with(folder: Path, key: Ed25519PrivateKey) -> bool:
    """True if a folder has the signature of its certificate that this key makes, which is always the same."""
    with suppress(OSError, ValueError):
        return _read(part_of(folder, SIGNATURE)) == _file_of(_signed(folder), key)
    return False


def check_signature(folder: Path, public_key: str | Path, certificate: str) -> str:
    """Check that a certificate was signed with the private key that belongs to a public one.

    Args:
        folder: The folder of the signature.
        public_key: The file of the public key.
        certificate: The text of the certificate that was verified: the one in the folder may be another by now.

    Raises:
        InputError: The file holds no public key.
        VerificationError: There is no signature, or one with another key or of another certificate.
    """
    file, key = disk_path(public_key), None
    with suppress(OSError, ValueError, UnsupportedAlgorithm):
        key = load_pem_public_key(_read(file))
    if not isinstance(key, Ed25519PublicKey):
        raise InputError(f"expected a public key in {public_key}, found none; ask whoever made the release for theirs")
    try:
        body = strict_json(_read(part_of(folder, SIGNATURE)).decode())
        if set(body) != {"schema", "signature"} or body["schema"] != _SCHEMA:
            raise VerificationError(f"expected a signature of schema {_SCHEMA}, found another")
        key.verify(bytes.fromhex(body["signature"]), _purpose(certificate.encode()))
    except OSError:
        raise VerificationError("expected a signed release, found no signature") from None
    except (InvalidSignature, TypeError, ValueError) as problem:
        if isinstance(problem, VerificationError):
            raise
        raise VerificationError(
            "expected a signature of this certificate with this key, found another: somebody else made it, or it was "
            "changed"
        ) from None
    return "signed with the private key of this public key"


def _file_of(body: bytes, key: Ed25519PrivateKey) -> bytes:
    """The file of a signature."""
    text = json.dumps({"schema": _SCHEMA, "signature": key.sign(body).hex()}, indent=2, sort_keys=True)
    return f"{text}\n".encode()


def _signed(folder: Path) -> bytes:
    """The bytes that are signed, of the certificate in a folder."""
    with opened(part_of(folder, CERTIFICATE)) as file:
        return _purpose(file.read())


def _purpose(certificate: bytes) -> bytes:
    """The bytes that are signed: a purpose, so that no signature for another one fits, and the certificate."""
    return _SCHEMA.encode() + b"\n" + certificate


def _read(path: Path) -> bytes:
    """The bytes of a small file."""
    with opened(path) as file:
        content = file.read(_MOST_BYTES + 1)
    if len(content) > _MOST_BYTES:
        raise ValueError("a larger file than a key or a signature")
    return content
