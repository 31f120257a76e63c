"""Who did which job when, drawn over time."""

from pathlib import Path

from matplotlib.figure import Figure

from examples.jobs.outcome import Outcome

_INK = "#2b2b2b"
_COLOURS = {"done": "#1f6f8b", "failed": "#d98032", "refused": "#b23a48", "killed": "#9a9a9a"}


def draw(outcome: Outcome, path: Path) -> None:
    """A row for each worker, a bar for each try at a job; the colour says how it ended."""
    workers = list(dict.fromkeys(line.worker for line in outcome.lines))
    begin_ms = outcome.lines[0].at_ms
    figure = Figure(figsize=(13, 1.5 + 0.6 * len(workers)), layout="constrained", facecolor="white")
    axes = figure.subplots()
    axes.set_title("Each bar is a try at a job", fontsize=14, fontweight="bold", color=_INK, loc="left")
    for row, worker in enumerate(workers):
        own = [line for line in outcome.lines if line.worker == worker]
        for line, following in zip(own, [*own[1:], None], strict=True):
            if line.event != "begun":
                continue
            event = following.event if following is not None and following.job == line.job else "killed"
            end_ms = following.at_ms if following is not None and event != "killed" else line.at_ms + 60
            begin_s, took_s = (line.at_ms - begin_ms) / 1_000, (end_ms - line.at_ms) / 1_000
            axes.barh(row, took_s, left=begin_s, color=_COLOURS[event], edgecolor="white", linewidth=0.4)
    axes.set_yticks(range(len(workers)), workers)
    axes.invert_yaxis()
    axes.set_xlabel("seconds", color=_INK)
    for event, colour in _COLOURS.items():
        axes.barh(0, 0, color=colour, label=event)
    axes.legend(frameon=False, ncols=4, loc="upper right", bbox_to_anchor=(1, 1.15))
    axes.tick_params(length=0, colors=_INK)
    for spine in axes.spines.values():
        spine.set_visible(False)
    figure.savefig(path, dpi=130)
