"""Keeps Spark's garbage collections short.

Each Python worker of Spark collects garbage after every task (`pyspark/daemon.py`). A collection visits all imported
modules, PySpark and Arrow above all, and takes tens of milliseconds of a core. A micro-batch has four such workers.
Imported modules never become garbage, so they are moved out of the reach of collections.
"""

import gc
import os

from pyspark_ottla.plain_errors import WORKER_VARIABLES

_begun: dict[str, int] = {}


def leave_modules_alone(work: str) -> None:
    """Call this when a task begins: from the second task on, garbage collections skip the objects that exist then.

    Its second time, when all is imported and Spark has just collected: garbage that is there then stays for ever. Only
    once for each kind of work, as it would take in something of each task. Nothing changes outside of Spark.
    """
    times = _begun[work] = min(_begun.get(work, 0) + 1, 3)
    if times == 2 and any(name.startswith(WORKER_VARIABLES) for name in os.environ):
        gc.freeze()
