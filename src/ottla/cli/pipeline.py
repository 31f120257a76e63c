"""`ottla pipeline`: from a file to queries on Spark, and what goes with it."""

from ottla.cli.main import LazyCommands

pipeline = LazyCommands(
    {
        "run": ("ottla.cli.pipeline_run", "run", "Run pipelines, for ever or until they have caught up."),
        "test": ("ottla.cli.pipeline_run", "test", "Run the tests of a pipeline on the rows in its file."),
        "inspect": ("ottla.cli.pipeline_run", "inspect", "Show rows of a source or step."),
        "lag": ("ottla.cli.pipeline_positions", "lag", "Show how far each sink is behind."),
        "reset": ("ottla.cli.pipeline_positions", "reset", "Let a pipeline go on from another place."),
    },
    name="pipeline",
    help="Run pipelines on Spark that one file declares: from topics to topics and tables, exactly once.",
)
