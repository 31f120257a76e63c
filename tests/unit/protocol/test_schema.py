"""The language of the schema tables."""

import pytest

from ottla.protocol.schema import FieldSchema, VersionRange, parse, snake_case


def fields(body: str) -> list[FieldSchema]:
    table = parse("request ExampleRequest  versions 2-7  flexible 5+\n" + body)
    return table.messages["ExampleRequest"].struct.fields


def test_a_table_has_a_line_of_words_and_an_api_key() -> None:
    table = parse("# Example: show the language.\napi 99\n\nresponse ExampleResponse  versions 0-1  flexible none\n")
    message = table.messages["ExampleResponse"]
    assert (table.doc, table.api_key) == ("Example: show the language.", 99)
    assert (message.kind, message.versions, message.flexible) == ("response", VersionRange(0, 1), None)


def test_a_field_without_versions_has_those_of_its_struct() -> None:
    name, topics = fields("  Name  string\n  Topics  []Topic  4-6\n    Id  uuid\n    Gone  int8  4\n")
    assert name.versions == VersionRange(2, 7)
    assert topics.versions == VersionRange(4, 6)
    table = parse("data D  versions 2-7  flexible none\n  Topics  []Topic  4-6\n    Id  uuid\n    New  int8  5+\n")
    assert [each.versions for each in table.structs["Topic"].fields] == [VersionRange(4, 6), VersionRange(5, 6)]


def test_deeper_lines_are_the_fields_of_the_struct_above_them() -> None:
    table = parse(
        "data D  versions 0  flexible none\n  A  []Outer\n    B  []Inner\n      C  int8\n    E  int8\n  F  int8\n"
    )
    names = {name: [each.name for each in struct.fields] for name, struct in table.structs.items()}
    assert names == {"D": ["A", "F"], "Outer": ["B", "E"], "Inner": ["C"]}


def test_a_struct_may_stand_apart_and_be_used_by_several_fields() -> None:
    table = parse("data D  versions 0-3  flexible none\n  A  Point\n  B  []Point  1+\n\nstruct Point\n  X  int32\n")
    assert [each.name for each in table.structs["Point"].fields] == ["X"]


def test_the_attributes_of_a_field() -> None:
    plain, null, tagged, old, some = fields(
        "  A  int32\n"
        "  B  []string?\n"
        "  C  string?  5+  default null, tag 3, ignorable\n"
        "  D  string  inflexible\n"
        "  E  string  nullable 4+\n"
    )
    assert (plain.nullable, plain.default, plain.tag, plain.ignorable, plain.inflexible) == (
        None,
        None,
        None,
        False,
        False,
    )
    assert (null.is_array, null.type_name, null.nullable) == (True, "string", VersionRange(2, 7))
    assert (tagged.default, tagged.tag, tagged.ignorable) == ("null", 3, True)
    assert old.inflexible
    assert some.nullable == VersionRange(4, 7)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("message M  versions 0  flexible none", "message is not a kind of message"),
        ("data D  versions 0  flexible none\n  A  []Missing", "D.A: no struct is called Missing"),
        ("data D  versions 0  flexible none\n  A  int8  colour red", "no field has the attribute colour"),
        ("data D  versions 0  flexible none\n  A  int8\n  A  int8", "line 3: .*D has a second field A"),
        ("data D  versions 0  flexible none\n\ndata D  versions 0  flexible none", "a second struct is called D"),
        ("data D  versions zero  flexible none", "line 1"),
        ("  A  int8", "line 1"),
    ],
)
def test_a_table_that_is_not_well_formed_is_refused_with_its_line(text: str, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        parse(text)


@pytest.mark.parametrize(
    ("name", "attribute"),
    [
        ("TopicId", "topic_id"),
        ("LastKnownElr", "last_known_elr"),
        ("KRaftVersion", "kraft_version"),
        ("V3AndBelowTopics", "v3_and_below_topics"),
        ("Enable2Pc", "enable2_pc"),
    ],
)
def test_attributes_are_named_in_the_style_of_python(name: str, attribute: str) -> None:
    assert snake_case(name) == attribute
