"""The file of a pipeline: what it says as values, and everything that is wrong with it at once."""

from ottla.pipelines.spec.loading import load
from ottla.pipelines.spec.mistake import Mistake, Position, SpecErrors
from ottla.pipelines.spec.model import PipelineSpec
from ottla.pipelines.spec.reading import check, check_text, read

__all__ = ["Mistake", "PipelineSpec", "Position", "SpecErrors", "check", "check_text", "load", "read"]
