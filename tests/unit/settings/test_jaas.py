"""JAAS lines are read as Kafka reads them, and what is wrong with one is said without its passwords."""

import pytest

from ottla.settings.jaas import JaasError, jaas_line, parse_jaas

PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule"


def test_options_may_be_quoted_and_lie_on_several_lines():
    entry = parse_jaas(f"""
        {PLAIN} required
            username="admin" password='x' user_a="one two" user_b="c\\"d\\\\e" /* not a name */
            user_c=plain; """)
    assert entry.module == "PlainLoginModule"
    assert entry.users == {"a": "one two", "b": 'c"d\\e', "c": "plain"}
    assert entry.options["username"] == "admin"


@pytest.mark.parametrize(
    "text",
    [
        "",
        ";",
        PLAIN,
        f"{PLAIN} required",
        f'{PLAIN} required user_a="secret"',
        f'{PLAIN} user_a="secret";',
        f'{PLAIN} required user_a "secret";',
        f'{PLAIN} required user_a="secret;',
        f"{PLAIN} required user_a=;",
        f'{PLAIN} required user_a="secret"; {PLAIN} required user_b="secret";',
        'com.sun.security.auth.module.Krb5LoginModule required keyTab="secret";',
    ],
)
def test_what_cannot_be_read_is_refused_without_repeating_it(text):
    with pytest.raises(JaasError) as refused:
        parse_jaas(text)
    assert "secret" not in str(refused.value)


@pytest.mark.parametrize("password", ["plain", 'q"uo\\te', "semi;colon", "sp ace", "ünïcode", "=="])
def test_a_line_that_is_written_is_read_back(password):
    entry = parse_jaas(jaas_line("SCRAM-SHA-512", "a,b", password))
    assert (entry.module, entry.options) == ("ScramLoginModule", {"username": "a,b", "password": password})
