"""What a worker of Spark's has loaded is left out of the collections that follow, once, and nothing else is."""

import gc

import pytest

from pyspark_ottla import worker_heap
from pyspark_ottla.worker_heap import leave_modules_alone


@pytest.fixture(autouse=True)
def worker(monkeypatch):
    monkeypatch.setattr(worker_heap, "_begun", {})
    monkeypatch.setenv("PYTHON_WORKER_FACTORY_PORT", "1")
    # What other tests left frozen, as a broker in this process does.
    gc.unfreeze()
    yield
    gc.unfreeze()


def test_from_its_second_task_on_collections_pass_over_what_a_worker_has_loaded():
    leave_modules_alone("read")
    assert gc.get_freeze_count() == 0
    leave_modules_alone("read")
    loaded = gc.get_freeze_count()
    assert loaded > len(gc.get_objects())


def test_what_later_tasks_make_is_collected_as_ever():
    leave_modules_alone("read")
    leave_modules_alone("read")
    made = [[number] for number in range(100)]
    leave_modules_alone("read")
    found = {id(each) for each in gc.get_objects()}
    assert all(id(each) in found for each in made)


def test_what_another_kind_of_work_loads_is_left_out_too():
    for work in ("read", "read", "write"):
        leave_modules_alone(work)
    loaded = [[number] for number in range(100)]
    before = gc.get_freeze_count()
    leave_modules_alone("write")
    assert gc.get_freeze_count() >= before + len(loaded)


def test_a_process_that_is_not_sparks_is_left_alone(monkeypatch):
    monkeypatch.delenv("PYTHON_WORKER_FACTORY_PORT")
    for _ in range(3):
        leave_modules_alone("read")
    assert gc.get_freeze_count() == 0
