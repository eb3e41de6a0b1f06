"""Completion by the shell: commands and options are offered from the parser itself."""

import pytest

from labeldp.cli import main


@pytest.mark.parametrize(
    ("typed", "offered"),
    [
        ("labeldp rel", {"release"}),
        ("labeldp release --mech", {"--mechanism"}),
        ("labeldp plan --ex", {"--explained"}),
        ("labeldp ", {"check", "plan", "release", "verify", "learn", "evaluate"}),
    ],
)
def test_what_was_begun_is_offered(monkeypatch, capsys, typed, offered):
    """As bash asks for it, with the words so far in the environment."""
    monkeypatch.setenv("_LABELDP_COMPLETE", "complete_bash")
    monkeypatch.setenv("COMP_WORDS", typed)
    monkeypatch.setenv("COMP_CWORD", str(typed.count(" ")))
    with pytest.raises(SystemExit) as ended:
        main([])
    assert ended.value.code == 0
    found = set(capsys.readouterr().out.split())
    assert found >= offered
    assert len(offered) > 1 or found == offered


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_script_of_a_shell_is_shown(capsys, monkeypatch, shell):
    """It asks this command, whatever shell runs the tests, and nothing is installed."""
    monkeypatch.setenv("_LABELDP_COMPLETE", f"source_{shell}")
    with pytest.raises(SystemExit):
        main([])
    assert "_LABELDP_COMPLETE=complete_" in capsys.readouterr().out
