import pytest

from ottla.security.principal_mapping import mapped_name, parse_mapping_rules
from ottla.settings.definition import InvalidSettingError

SUBJECT = "CN=Duke,OU=ServiceUsers,O=Org,C=US"


@pytest.mark.parametrize(
    ("rules", "subject", "name"),
    [
        # The examples of Kafka's documentation and of SslPrincipalMapperTest.
        ("RULE:^CN=(.*?),OU=ServiceUsers.*$/$1/", SUBJECT, "Duke"),
        ("RULE:^CN=(.*?),OU=(.*?),O=(.*?),C=(.*?)$/$1@$2/L, DEFAULT", SUBJECT, "duke@serviceusers"),
        ("RULE:^.*[Cc][Nn]=([a-zA-Z0-9.]*).*$/$1/U", SUBJECT, "DUKE"),
        ("RULE:^CN=(.*?),OU=Other.*$/$1/, DEFAULT", SUBJECT, SUBJECT),
        ("DEFAULT", SUBJECT, SUBJECT),
        ("RULE:^CN=(.*?),OU=Other.*$/$1/", SUBJECT, None),
        (r"RULE:^CN=(.*)\/x$/$1\/y/", "CN=a/x", "a/y"),
        ("RULE:^CN=((\\\\, *|\\w)+)(,.*|$)/$1/,DEFAULT", "CN=Tkac\\, Adam,OU=ITZ", "Tkac\\, Adam"),
        ("RULE:^cn=(.*)$/$1 costs $2/", "cn=x", "x costs $2"),
    ],
)
def test_a_name_comes_of_the_first_rule_that_is_for_the_whole_subject(rules, subject, name):
    assert mapped_name(parse_mapping_rules(rules), subject) == name


@pytest.mark.parametrize("rules", ["DEFAULTS", "RULE:a", "RULE:(/x/", "RULE:a/b/X", "DEFAULT RULE:a/b/", "nothing"])
def test_what_is_no_rule_is_refused_with_the_setting(rules):
    with pytest.raises(InvalidSettingError, match=r"ssl\.principal\.mapping\.rules: .* is no (rule|pattern)"):
        parse_mapping_rules(rules)
