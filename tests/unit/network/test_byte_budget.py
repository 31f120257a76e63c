"""Who holds more when there is no room any more has to end; who holds less may go on."""

from ottla.network.byte_budget import ByteBudget


def test_one_that_grows_beyond_the_budget_has_to_end_and_one_that_shrinks_may_go_on() -> None:
    budget = ByteBudget(100)
    assert budget.move(0, 60)
    assert budget.move(0, 40)
    assert not budget.move(40, 41)
    assert budget.move(60, 59)
    assert budget.used == 100
