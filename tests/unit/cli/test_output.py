"""Tables line up."""

from ottla.cli.output import print_table


def test_columns_are_as_wide_as_their_widest_cell(capsys):
    print_table(["NAME", "N"], [["a", 5], ["a longer name", 12345]], right=["N"])
    assert capsys.readouterr().out == "NAME               N\na                  5\na longer name  12345\n"


def test_what_is_none_is_a_dash_and_lists_are_joined(capsys):
    print_table(["A", "B", "C"], [[None, [1, 2], True]])
    assert capsys.readouterr().out == "A  B    C\n-  1,2  yes\n"


def test_a_table_without_rows_is_its_header(capsys):
    print_table(["A", "B"], [])
    assert capsys.readouterr().out == "A  B\n"


def test_what_a_stranger_named_does_not_steer_the_terminal(capsys):
    print_table(["STEP", "N"], [["s\x1b[2J", 1], ["a\nb", 2]])
    assert capsys.readouterr().out == "STEP        N\ns\\u001b[2J  1\na\\nb        2\n"
