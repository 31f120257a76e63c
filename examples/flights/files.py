"""Where the demo puts what it makes."""

import shutil
from dataclasses import dataclass
from pathlib import Path

PIPELINE = Path(__file__).with_name("pipeline.toml")


@dataclass(frozen=True, slots=True)
class DemoFiles:
    """The paths below one directory. Nothing else in that directory is touched."""

    root: Path

    @property
    def pipeline(self) -> Path:
        """The pipeline's file, copied here: its checkpoints and tables lie beside it."""
        return self.root / "pipeline.toml"

    @property
    def graph(self) -> Path:
        """The pipeline as a picture."""
        return self.root / "pipeline.svg"

    @property
    def pipeline_lines(self) -> Path:
        """What the pipeline said of its micro-batches, a JSON object a line."""
        return self.root / "pipeline.jsonl"

    @property
    def pipeline_log(self) -> Path:
        """What it said beside that."""
        return self.root / "pipeline.log"

    @property
    def checkpoints(self) -> Path:
        """How far the pipeline's queries have come."""
        return self.root / "checkpoints"

    @property
    def spark_log(self) -> Path:
        """What Spark said."""
        return self.checkpoints / "spark.log"

    @property
    def table(self) -> Path:
        """The table of events."""
        return self.root / "lake"

    @property
    def dead_letters(self) -> Path:
        """The events that were refused, one JSON object a line."""
        return self.root / "dead-letters.jsonl"

    @property
    def delays(self) -> Path:
        """A picture: departures and delays by hour and carrier."""
        return self.root / "delays.png"

    @property
    def course(self) -> Path:
        """A picture: what was sent and what was read while the broker was killed."""
        return self.root / "run.png"

    @property
    def report(self) -> Path:
        """What the demo did, as JSON."""
        return self.root / "report.json"

    @property
    def broker_data(self) -> Path:
        """The broker's data directory; `ottla serve --data` of it brings the topics back."""
        return self.root / "broker"

    @property
    def broker_log(self) -> Path:
        """What the broker said."""
        return self.root / "broker.log"

    @property
    def archive(self) -> Path:
        """The topics as Parquet files."""
        return self.root / "archive"

    @property
    def restored_data(self) -> Path:
        """The data directory that the archive was restored to."""
        return self.root / "restored"

    @property
    def restored_log(self) -> Path:
        """What the broker on it said."""
        return self.root / "restored.log"

    def clear(self) -> None:
        """Remove what an earlier run left, and make the directory with the pipeline's file in it."""
        self.root.mkdir(parents=True, exist_ok=True)
        for path in (self.table, self.broker_data, self.checkpoints, self.archive, self.restored_data):
            shutil.rmtree(path, ignore_errors=True)
        pictures = (self.graph, self.delays, self.course)
        logs = (self.pipeline_lines, self.pipeline_log, self.broker_log, self.restored_log)
        for path in (*pictures, *logs, self.dead_letters, self.report):
            path.unlink(missing_ok=True)
        shutil.copyfile(PIPELINE, self.pipeline)
