"""What users build on changes only with a note."""

from difflib import unified_diff

from tests.public import RENEW, SNAPSHOT, public


def test_nothing_public_changes_without_a_note():
    there = SNAPSHOT.read_text(encoding="utf-8").splitlines()
    changed = [line for line in unified_diff(there, public(), lineterm="", n=0) if line[:3] not in {"---", "+++"}]
    changed = [line for line in changed if not line.startswith("@@")]
    assert not changed, (
        "what users build on has changed (docs/compatibility.md). If that is meant, renew the list by "
        f"`{RENEW}`, and say in CHANGELOG.md what changes for users:\n" + "\n".join(changed)
    )
