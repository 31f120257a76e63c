"""A log in memory in place of the cluster, for readers and writers that look for their client themselves."""

import pytest

from tests.unit.pyspark_ottla.model_log import ModelLog


@pytest.fixture
def log(monkeypatch: pytest.MonkeyPatch) -> ModelLog:
    model = ModelLog()
    for module in ("batch_reader", "stream_reader"):
        monkeypatch.setattr(f"pyspark_ottla.{module}.reader_for", lambda *_: model)
    monkeypatch.setattr("pyspark_ottla.writer.client_for", lambda *_: model)
    monkeypatch.setattr("pyspark_ottla.writer.producer_for", lambda _: model)
    return model
