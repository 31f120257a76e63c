"""Where the demo puts what it makes."""

import shutil
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class DemoFiles:
    """The paths below one directory. Nothing else in that directory is touched."""

    root: Path

    @property
    def table(self) -> Path:
        """The result as Parquet, one directory for each micro-batch."""
        return self.root / "delays.parquet"

    @property
    def dead_letters(self) -> Path:
        """The events that were refused, one JSON object a line."""
        return self.root / "dead-letters.jsonl"

    @property
    def picture(self) -> Path:
        """Departures and delays by hour and carrier."""
        return self.root / "delays.png"

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
    def spark_log(self) -> Path:
        """What Spark said."""
        return self.root / "spark.log"

    @property
    def checkpoints(self) -> Path:
        """How far Spark's queries have come."""
        return self.root / "checkpoints"

    @property
    def spark_scratch(self) -> Path:
        """Spark's temporary files."""
        return self.root / "spark-scratch"

    def clear(self) -> None:
        """Remove what an earlier run left, and make the directory."""
        self.root.mkdir(parents=True, exist_ok=True)
        for path in (self.table, self.broker_data, self.checkpoints, self.spark_scratch):
            shutil.rmtree(path, ignore_errors=True)
        for path in (self.dead_letters, self.picture, self.report, self.broker_log, self.spark_log):
            path.unlink(missing_ok=True)
