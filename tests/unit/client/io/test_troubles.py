"""What a client waits for, and since when."""

from ottla.client.io.troubles import Troubles
from ottla.runtime.clock import ManualClock


def test_the_longest_trouble_is_told_with_its_newest_reason():
    clock = ManualClock()
    troubles = Troubles(clock)
    assert troubles.longest() is None
    troubles.note("broker 1", ValueError("refused"))
    clock.advance(1_000)
    troubles.note("broker 2", ValueError("unknown host"))
    troubles.note("broker 1", ValueError("no answer"))
    longest = troubles.longest()
    assert longest is not None
    lasted_ms, trouble = longest
    assert (lasted_ms, trouble.what) == (1_000, "no answer")
    troubles.over("broker 1")
    assert troubles.longest()[1].what == "unknown host"


def test_a_wait_is_a_trouble_while_it_lasts():
    clock = ManualClock()
    troubles = Troubles(clock)
    with troubles.waiting("no answer yet"):
        clock.advance(2_500)
        assert troubles.longest()[0] == 2_500
    assert troubles.longest() is None


def test_a_call_that_is_tried_again_is_in_trouble_until_it_ends():
    troubles = Troubles(ManualClock())
    with troubles.repeated() as note:
        assert troubles.longest() is None
        note(ValueError("no leader"))
        assert troubles.longest()[1].what == "no leader"
    assert troubles.longest() is None
