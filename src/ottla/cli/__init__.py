"""The `ottla` command."""


def main() -> None:
    """Run the command line of this process and exit with its code; see `ottla.cli.exit_codes`."""
    try:
        from ottla.runtime import garbage

        garbage.look_less_often()
        from ottla.cli.standard_streams import open_missing, write_whole

        open_missing()
        write_whole()
        from ottla.cli.main import run
    except KeyboardInterrupt:  # what is imported takes a moment, in which nothing has begun
        raise SystemExit(130) from None
    raise SystemExit(run())
