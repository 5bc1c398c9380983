"""The words that docs/style.md rules out stay out of comments, docstrings, messages, headers and pages."""

from tests.prose import passages, rules


def test_prose_avoids_the_words_of_the_style_page() -> None:
    listed = rules()
    hits = [
        f"{passage.path}:{passage.line + passage.text.count(chr(10), 0, match.start())}: {match[0]!r}: {rule.why} "
        f"Write: {rule.write}"
        for passage in passages()
        for rule in listed
        for match in rule.pattern.finditer(passage.text)
    ]
    assert not hits, f"{len(hits)} places:\n" + "\n".join(hits[:60])
