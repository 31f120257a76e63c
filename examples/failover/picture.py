"""What clients saw, drawn over time: how long each write took, and how many were acknowledged and read."""

from pathlib import Path

from matplotlib.figure import Figure

from examples.failover.outcome import Outcome

_INK = "#2b2b2b"
_ACKNOWLEDGED, _READ, _EVENT = "#1f6f8b", "#d98032", "#b23a48"
_BIN_S = 0.1


def draw(outcome: Outcome, path: Path) -> None:
    """Two charts above each other, over the seconds before and after the broker was killed."""
    figure = Figure(figsize=(13, 7), layout="constrained", facecolor="white")
    figure.suptitle(outcome.title, fontsize=14, fontweight="bold", color=_INK, x=0.01, ha="left")
    above, below = figure.subplots(2, 1, sharex=True)
    above.scatter(outcome.sent_s, outcome.took_ms, s=2, color=_ACKNOWLEDGED, linewidths=0)
    above.set_yscale("log")
    above.set_ylabel("from send to acknowledgement, ms", color=_INK)
    first, last = outcome.span_s
    bins = [first + index * _BIN_S for index in range(int((last - first) / _BIN_S) + 1)]
    for times, name, colour in (
        (outcome.acknowledged_s, "acknowledged (acks=all)", _ACKNOWLEDGED),
        (outcome.read_s, "read by the group", _READ),
    ):
        weights = [1 / _BIN_S] * len(times)
        below.hist(times, bins=bins, weights=weights, histtype="step", linewidth=1.4, color=colour, label=name)
    below.set_ylabel("records a second", color=_INK)
    below.set_xlabel("seconds since the broker was killed", color=_INK)
    below.legend(frameon=False, loc="upper left")
    for axes in (above, below):
        for index, (seconds, what) in enumerate(outcome.events):
            axes.axvline(seconds, color=_EVENT, linewidth=1, linestyle="--")
            if axes is above:
                axes.annotate(
                    what,
                    (seconds, 1),
                    xycoords=("data", "axes fraction"),
                    xytext=(4, -12 - 14 * index),
                    color=_EVENT,
                    textcoords="offset points",
                    fontsize=9,
                )
        axes.grid(axis="y", color="#e8e8e8")
        axes.tick_params(length=0, colors=_INK)
        for spine in axes.spines.values():
            spine.set_visible(False)
    figure.savefig(path, dpi=130)
