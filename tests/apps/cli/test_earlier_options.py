"""Options of earlier versions: none of them is an option now, and what stands for each is one."""

import typer.main

from unskew.apps.cli.earlier_options import _NOW, respell_options
from unskew.apps.cli.main import app


def test_each_stands_for_an_option_that_there_is(capsys):
    topology = typer.main.get_command(app).commands["topology"]  # pyright: ignore[reportAttributeAccessIssue]
    spelled = {name for parameter in topology.params for name in parameter.opts}
    assert not spelled & _NOW.keys()
    assert {now for now, _ in _NOW.values()} <= spelled
    for name, (now, form) in _NOW.items():
        given = [name, "x"] if "{}" in form else [name]
        assert list(respell_options([*given, "--live"])) == [now, form.format("x"), "--live"]
        assert f"{name} is {now} " in capsys.readouterr().err
