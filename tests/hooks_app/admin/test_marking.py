"""What approvers and reviewers see of commands and differences."""

from __future__ import annotations

from hooks_app.admin import difference, marking
from hooks_app.services.diffs import values


def test_the_dangerous_part_is_marked_and_the_rest_is_not() -> None:
    shown = marking.command("cd /srv && rm -rf /data", ["recursive delete"])
    assert '<mark class="danger-part">' in shown and shown.startswith("cd /srv ")


def test_a_mark_ends_with_its_word() -> None:
    assert '<mark class="danger-part">rm -rf</mark> data' in marking.command("rm -rf data", ["recursive delete"])


def test_markup_in_a_command_is_text() -> None:
    assert "<script>" not in marking.command("rm -rf / <script>alert(1)</script>", ["delete in root path"])


def test_hidden_characters_are_spelt_out_inside_marks_too() -> None:
    assert "U+202E" in marking.command("rm -rf \u202e/", ["recursive delete"])


def test_an_unknown_key_marks_nothing() -> None:
    assert "<mark" not in marking.command("ls", ["a key of tomorrow"])


def test_lines_of_a_difference_keep_their_numbers() -> None:
    (part,) = difference.parts([values("spec", {"a": 1, "b": "x"}, {"a": 1, "b": "y\u200b"})])
    assert [(row.kind, row.old, row.new) for row in part.rows if row.kind != "same"] == [
        ("removed", 3, None),
        ("added", None, 3),
    ]
    assert part.counts == (1, 1)
    assert "U+200B" in "".join(row.text for row in part.rows)
