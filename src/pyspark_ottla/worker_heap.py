"""Keeps Spark's garbage collections short.

Spark has each of its Python workers collect garbage after every task (`pyspark/daemon.py`). A collection visits all
that was imported, PySpark and Arrow above all, and takes tens of milliseconds of a core; a micro-batch has four such
workers. What is imported never becomes garbage, so it is put where collections do not look.
"""

import gc
import os

from pyspark_ottla.plain_errors import WORKER_VARIABLES

_begun: dict[str, int] = {}


def leave_modules_alone(work: str) -> None:
    """To be called as a task begins; collections in a worker that did such work before pass over what is there now.

    Its second time, when all is imported and Spark has just collected: garbage that is there then stays for ever. Only
    once for each kind of work, as it would take in something of each task. Nothing changes outside of Spark.
    """
    times = _begun[work] = min(_begun.get(work, 0) + 1, 3)
    if times == 2 and any(name.startswith(WORKER_VARIABLES) for name in os.environ):
        gc.freeze()
