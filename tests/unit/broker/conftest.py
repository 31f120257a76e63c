from tests.unit.replication.conftest import new_partition

__all__ = ["new_partition"]
