"""What looks secret, and that it is not kept."""

from __future__ import annotations

import pytest

from jupyterhub_backendai.model.secrets import blanked, looks_secret, redacted


@pytest.mark.parametrize(
    ("name", "secret"),
    [
        ("WANDB_API_KEY", True), ("hf_token", True), ("PGPASSWORD", True), ("MY_PWD", True),
        ("SSH_OPTIONS", True), ("GOOGLE_APPLICATION_CREDENTIALS", True), ("OAUTH_ID", True),
        ("CARD_PIN", True), ("SALT", True), ("LANG", False), ("KEYBOARD", False),
        ("EPOCHS", False), ("OPENAI_APIKEY", True), ("db_url", True), ("SENTRY_DSN", True),
        ("DATABASE_URL", True), ("SLACK_WEBHOOK", True), ("MLFLOW_TRACKING_URI", False),
    ],
)  # fmt: skip
def test_which_names_look_secret(name: str, secret: bool) -> None:
    assert looks_secret(name) is secret


def test_options_without_secrets() -> None:
    asked = {"preset": "small", "env": {"HF_TOKEN": "x", "LANG": "C"}}
    assert redacted(asked) == {"preset": "small", "env": {"HF_TOKEN": "", "LANG": "C"}}
    assert asked["env"] == {"HF_TOKEN": "x", "LANG": "C"}, "what was given stays as it is"
    rows = [{"name": "HF_TOKEN", "value": "x"}, {"name": "LANG", "value": "C"}, "odd"]
    assert redacted({"env": rows})["env"] == [
        {"name": "HF_TOKEN", "value": ""},
        {"name": "LANG", "value": "C"},
    ]
    for odd in ("HF_TOKEN=x", 5, None):
        assert redacted({"env": odd}) == {}
    once = redacted(asked)
    assert redacted(once) == once


def test_which_values_are_missing() -> None:
    env = {"B_TOKEN": "x", "LANG": "C", "A_TOKEN": "y", "EMPTY": ""}
    assert blanked(redacted({"env": env})) == ["B_TOKEN", "A_TOKEN"]
    rows = [{"name": name, "value": value} for name, value in env.items()]
    assert blanked(redacted({"env": rows})) == ["B_TOKEN", "A_TOKEN"]
    for options in ({}, {"env": None}, {"env": {}}, {"env": []}):
        assert blanked(options) == []
