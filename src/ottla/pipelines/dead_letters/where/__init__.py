"""The expressions of `ottla dlq ... --where`: a small part of SQL, read and evaluated here, never by Python's eval."""

from ottla.pipelines.dead_letters.where.expression import Where, parse
from ottla.pipelines.dead_letters.where.tokens import WhereError

__all__ = ["Where", "WhereError", "parse"]
