"""Shows users the message of an error, without a traceback, when a read or a write is refused.

A Python process of Spark sends its error to the JVM as a traceback of some fifty lines, with the message at its end.
It sends only the message if `SPARK_HIDE_TRACEBACK` is set in that process, which ends with the error. So this module
sets it for errors that users can act on. Others keep their traceback.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager

from pyspark_ottla.options import OptionError

WORKER_VARIABLES = "PYTHON_WORKER_FACTORY_"
"""Prefixes of the variables that Spark sets for its Python processes: port or socket, and a secret."""
_HIDE_TRACEBACK = "SPARK_HIDE_TRACEBACK"


@contextmanager
def plain_errors() -> Iterator[None]:
    """Re-raises errors, and makes Spark show Ottla's without a traceback. Has no effect outside of Spark."""
    try:
        yield
    except Exception as error:
        if _is_for_people(error) and any(name.startswith(WORKER_VARIABLES) for name in os.environ):
            os.environ[_HIDE_TRACEBACK] = "1"
        raise


def _is_for_people(error: Exception) -> bool:
    if isinstance(error, OptionError):
        return True
    # Only now, as most processes never fail and would import the client for nothing.
    from ottla.client.errors import ClientError
    from pyspark_ottla.data_loss import DataLossError
    from pyspark_ottla.schema_registry import RegistryError

    return isinstance(error, (ClientError, DataLossError, RegistryError))
