"""The settings of a session, without one."""

import logging
import sys

import pytest

from ottla.pipelines.masters import is_local
from ottla.pipelines.session import (
    SessionOptions,
    SparkMissingError,
    quiet_loggers,
    require_java,
    require_pyspark,
    settings,
)


def test_this_machine_is_the_default_and_a_task_is_tried_again(tmp_path):
    made = settings(SessionOptions(tmp_path / "log", tmp_path), cores=1)
    assert made["spark.master"] == "local[2,4]"
    assert made["spark.sql.shuffle.partitions"] == "2"
    assert made["spark.python.unix.domain.socket.enabled"] == "true"
    assert "spark.sql.streaming.checkpointFileManagerClass" in made


def test_a_cluster_keeps_its_own_file_manager_and_settings_go_first(tmp_path):
    options = SessionOptions(tmp_path / "log", tmp_path, master="spark://host:7077", conf={"spark.ui.enabled": "true"})
    made = settings(options, cores=8)
    assert (made["spark.master"], made["spark.ui.enabled"]) == ("spark://host:7077", "true")
    assert "spark.sql.streaming.checkpointFileManagerClass" not in made


@pytest.mark.parametrize(
    ("master", "local"), [("local", True), ("local[2,4]", True), ("local-cluster[2,1,600]", False)]
)
def test_what_is_this_machine(master, local):
    assert is_local(master) is local


def test_without_java_the_line_says_what_to_install(monkeypatch, tmp_path):
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(SparkMissingError, match="install Java 17"):
        require_java()


def test_without_pyspark_the_line_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "pyspark", None)
    with pytest.raises(SparkMissingError, match=r"pip install 'ottla\[pipelines\]'"):
        require_pyspark()


def test_an_interrupt_that_py4j_logs_under_no_name_is_not_shown_and_all_else_is(caplog):
    before = [*logging.getLogger().filters]
    quiet_loggers()
    try:
        said = "KeyboardInterrupt while sending command."
        for module in ("java_gateway", "other"):
            logging.getLogger().handle(logging.LogRecord("root", logging.ERROR, f"{module}.py", 1, said, (), None))
        assert [each.module for each in caplog.records] == ["other"]
    finally:
        logging.getLogger().filters[:] = before
