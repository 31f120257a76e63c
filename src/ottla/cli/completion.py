"""`ottla completion`: the script by which a shell completes commands and options."""

import click
from click.shell_completion import get_completion_class


@click.command("completion")
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@click.pass_context
def completion(ctx: click.Context, shell: str) -> None:
    """Print the completion script of a shell. Add the line of the example to your shell's startup file.

    \b
    Example:
      eval "$(ottla completion bash)"        # ~/.bashrc
      eval "$(ottla completion zsh)"         # ~/.zshrc
      ottla completion fish | source         # ~/.config/fish/config.fish
    """
    kind = get_completion_class(shell)
    assert kind is not None, f"click completes for {shell}"
    click.echo(kind(ctx.find_root().command, {}, "ottla", "_OTTLA_COMPLETE").source())
