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
