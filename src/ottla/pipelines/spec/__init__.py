"""Reads pipeline files: their content as values, and all mistakes at once."""

from ottla.pipelines.spec.loading import load
from ottla.pipelines.spec.mistake import Mistake, Position, SpecErrors
from ottla.pipelines.spec.model import PipelineSpec
from ottla.pipelines.spec.reading import check, check_text, read

__all__ = ["Mistake", "PipelineSpec", "Position", "SpecErrors", "check", "check_text", "load", "read"]
