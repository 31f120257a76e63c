"""`ottla pipeline`: pipelines on Spark, declared in files, from writing one to running it."""

from ottla.cli.main import LazyCommands

pipeline = LazyCommands(
    {
        "init": ("ottla.cli.pipeline_file", "init", "Write a small pipeline file that works, with tests."),
        "lint": ("ottla.cli.pipeline_file", "lint", "Report all mistakes in pipeline files, with positions."),
        "graph": ("ottla.cli.pipeline_file", "graph", "Draw a pipeline as Mermaid or SVG."),
        "test": ("ottla.cli.pipeline_run", "test", "Run the tests of a pipeline on the rows in its file."),
        "run": ("ottla.cli.pipeline_run", "run", "Run pipelines, until stopped or until they have caught up."),
        "inspect": ("ottla.cli.pipeline_run", "inspect", "Show rows of a source or step."),
        "lag": ("ottla.cli.pipeline_positions", "lag", "Show the lag of each sink."),
        "reset": ("ottla.cli.pipeline_positions", "reset", "Move a stopped pipeline to another position."),
        "replay": ("ottla.cli.pipeline_replay", "replay", "Run a pipeline over a past range, into separate outputs."),
        "diff": ("ottla.cli.pipeline_replay", "diff", "Compare the outputs of a replay with production's."),
        "audit": ("ottla.cli.pipeline_audit", "audit", "Check the audit reports: gaps, repeats, imbalance."),
    },
    name="pipeline",
    help="Run pipelines on Spark that one file declares: from topics to topics and tables, exactly once.",
)
