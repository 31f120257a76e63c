"""Many partitions on three brokers: to create them, one broker's death, everybody's death and return, memory.

    .venv/bin/python -m benchmarks.cluster_partitions [--partitions 10000] [--target ottla] [--directory DIR]

The brokers are processes of their own on this machine, and each partition has three replicas.
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path

from benchmarks.beside_kafka.brokers import OTTLA, TARGETS
from benchmarks.beside_kafka.figures import Figures
from benchmarks.beside_kafka.rows import cluster_partitions
from benchmarks.beside_kafka.session import Session
from tools.peers import java_class_path


def main() -> None:
    """Measure, and say each figure as it is known."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--partitions", type=int, default=cluster_partitions.PARTITIONS)
    parser.add_argument("--target", choices=TARGETS, default=OTTLA.key)
    parser.add_argument("--directory", type=Path, help="where the data lies meanwhile; a temporary one if not said")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=arguments.directory) as work:
        session = Session(
            target=TARGETS[arguments.target],
            work=Path(work),
            figures=Figures(),
            kafka_class_path=java_class_path,
            fill_page_cache=lambda: None,
            say=lambda text: print(text, flush=True),
        )
        cluster_partitions.measure(session, arguments.partitions)


if __name__ == "__main__":
    main()
