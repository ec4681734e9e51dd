from __future__ import annotations

import base64
import json
import os
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest

from controlplane.lib import signing
from controlplane.lib.signing import KeyRing, PublicKey, SigningError, SigningKey


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "keys" / "signing.pem"


def test_sign_and_verify() -> None:
    key = SigningKey.generate()
    signature = key.sign(b"data")
    assert key.public.verify(b"data", signature)
    assert not key.public.verify(b"datA", signature)
    assert not SigningKey.generate().public.verify(b"data", signature)
    assert PublicKey.from_text(key.public.to_text()) == key.public
    assert len(key.key_id) == 16
    assert key.key_id in repr(key)


@pytest.mark.parametrize("signature", ["", "!", "AAAA", "é", "A" * 88])
def test_a_malformed_signature_is_not_one(signature: str) -> None:
    assert not SigningKey.generate().public.verify(b"data", signature)


@pytest.mark.parametrize("text", ["", "!", "AAAA", "é"])
def test_a_malformed_public_key_is_refused(text: str) -> None:
    with pytest.raises(SigningError):
        PublicKey.from_text(text)


def test_rfc_8032_vector_1() -> None:
    public = PublicKey(bytes.fromhex("d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a"))
    signature = bytes.fromhex(
        "e5564300c360ac729086e2cc806e828a84877f1eb8e5d974d873e06522490155"
        "5fb8821590a33bacc61e39701cf9b46bd25bf5f0595bbe24655141438e7a100b"
    )
    assert public.verify(b"", base64.b64encode(signature).decode())
    assert public.key_id == "21fe31dfa154a261"


def test_the_key_file_is_created_once_and_private(path: Path) -> None:
    with ThreadPoolExecutor(8) as pool:
        keys = list(pool.map(lambda _: SigningKey.load_or_create(path).key_id, range(16)))
    assert len(set(keys)) == 1
    assert path.stat().st_mode & 0o777 == 0o600
    assert [entry.name for entry in path.parent.iterdir()] == ["signing.pem"]


def test_a_key_that_others_may_read_is_refused(path: Path) -> None:
    SigningKey.load_or_create(path)
    path.chmod(0o644)
    with pytest.raises(SigningError, match="chmod 600"):
        SigningKey.load_or_create(path)


@pytest.mark.parametrize(
    "content", [b"", b"not a key", b"-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n"]
)
def test_an_unreadable_key_is_refused_and_kept(path: Path, content: bytes) -> None:
    path.parent.mkdir()
    path.write_bytes(content)
    path.chmod(0o600)
    with pytest.raises(SigningError, match="is not an unencrypted PEM"):
        SigningKey.load_or_create(path)
    assert path.read_bytes() == content


def test_an_unwritable_directory_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(SigningError, match="cannot be written"):
        SigningKey.load_or_create(tmp_path / "file" / "signing.pem")


def test_rotation_keeps_old_signatures_valid_and_destroys_the_old_private_key(path: Path) -> None:
    old, before = signing.load_ring(path)
    signature = old.sign(b"checkpoint")
    new, ring = signing.rotate(path)
    assert new.key_id != old.key_id
    assert ring.current == new.public
    assert ring.verify(old.key_id, b"checkpoint", signature)
    assert ring.verify(new.key_id, b"next", new.sign(b"next"))
    assert not ring.verify("0" * 16, b"next", new.sign(b"next"))
    assert ring.extends(before)
    assert not before.extends(ring)
    loaded, again = signing.load_ring(path)
    assert (loaded.key_id, again) == (new.key_id, ring)
    assert sorted(entry.name for entry in path.parent.iterdir()) == [
        "signing.pem",
        "signing.pem.lock",
        "signing.ring.json",
    ]


@pytest.mark.parametrize("crash_at", [1, 2, 3])
def test_a_crash_in_rotation_leaves_a_working_pair(path: Path, monkeypatch: pytest.MonkeyPatch, crash_at: int) -> None:
    old, _ = signing.load_ring(path)
    calls = 0
    real = os.replace

    def crash(source: Path, target: Path) -> None:
        nonlocal calls
        calls += 1
        if calls == crash_at:
            raise KeyboardInterrupt
        real(source, target)

    monkeypatch.setattr(signing.os, "replace", crash)
    with pytest.raises(KeyboardInterrupt):
        signing.rotate(path)
    monkeypatch.setattr(signing.os, "replace", real)
    key, ring = signing.load_ring(path)
    assert ring.current == key.public
    assert (key.key_id == old.key_id) == (crash_at < 3)
    assert signing.rotate(path)[1].extends(ring)


def test_a_forged_or_reordered_ring_is_refused(path: Path) -> None:
    signing.load_ring(path)
    signing.rotate(path)
    _, ring = signing.rotate(path)
    stranger = SigningKey.generate()
    forged = replace(ring.endorsements[1], key=stranger.public)
    for steps in [
        (forged,),
        (ring.endorsements[1],),
        ring.endorsements[::-1],
        (ring.endorsements[0], forged),
    ]:
        with pytest.raises(SigningError, match="is not endorsed"):
            KeyRing(ring.first, steps)
    with pytest.raises(SigningError, match="not the current key"):
        ring.endorse(stranger.public, signer=stranger)


def test_a_key_that_is_not_the_rings_is_refused(path: Path) -> None:
    signing.load_ring(path)
    path.unlink()
    with pytest.raises(SigningError, match="is not the ring's current key"):
        signing.load_ring(path)


@pytest.mark.parametrize("content", ["", "[]", "{}", '{"first": 5}', '{"first": "AAAA", "endorsements": 1}'])
def test_a_malformed_ring_is_refused(path: Path, content: str) -> None:
    signing.load_ring(path)
    path.with_suffix(".ring.json").write_text(content)
    with pytest.raises(SigningError):
        signing.load_ring(path)


def test_the_ring_survives_json() -> None:
    old, new = SigningKey.generate(), SigningKey.generate()
    ring = KeyRing(old.public).endorse(new.public, signer=old)
    assert KeyRing.from_json(json.loads(json.dumps(ring.to_json()))) == ring
