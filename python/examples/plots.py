"""Makes the plots of docs/python.md: python3 python/examples/plots.py docs/recorded. Takes pandas and matplotlib."""

import pathlib
import sys

import matplotlib

matplotlib.use("svg")
import matplotlib.pyplot as plt
from matplotlib.axes import Axes

import kumade

MBIT = 1e6
# Readable on light and on dark ground.
INK = "#808893"
COLOURS = ("#2a78d6", "#eb6834", "#1baf7a", "#b079d8")


def axes(x: str, y: str) -> Axes:
    figure = plt.figure(figsize=(6.4, 3.6), layout="constrained")
    figure.patch.set_alpha(0)
    plot = figure.add_subplot(facecolor="none", xlabel=x, ylabel=y)
    plot.spines[["top", "right"]].set_visible(False)
    return plot


def accuracy() -> Axes:
    """Estimates over many TCP connections beside the truth, with their intervals."""
    rows = kumade.lab("rake-accuracy", virtual=True, options=["--transport", "rake"]).frame()
    plot = axes("true available bandwidth, Mbit/s", "estimate, Mbit/s")
    found = rows.dropna(subset=["available_bits_per_second.value"])
    truth = found["truth_bits_per_second"] / MBIT
    plot.plot([truth.min(), truth.max()], [truth.min(), truth.max()], color=INK, linewidth=1, label="truth")
    for colour, (method, group) in zip(COLOURS, found.groupby("method")):
        value = group["available_bits_per_second.value"] / MBIT
        below = value - group["available_bits_per_second.low"] / MBIT
        above = group["available_bits_per_second.high"] / MBIT - value
        plot.errorbar(
            group["truth_bits_per_second"] / MBIT, value, [below.clip(0), above.clip(0)],
            fmt="o", markersize=3, linewidth=0.8, color=colour, label=str(method),
        )
    return plot


def fairness() -> Axes:
    """Jain's index of each mix of connections, by queue discipline."""
    few = ["--row", "0,1,2,3,4,5,6,7", "--duration", "10s"]
    points = kumade.lab("fair-mix", virtual=True, runs=1, options=few).frame("summary.points")
    plot = axes("mix of congestion controls", "Jain's index")
    for colour, (discipline, group) in zip(COLOURS, points.groupby("discipline", sort=False)):
        plot.plot(range(len(group)), group["jain_index.value"], "o-", markersize=4, linewidth=1, color=colour, label=discipline)
    plot.set_xticks(range(points["case"].nunique()))
    return plot


def main() -> None:
    directory = pathlib.Path(sys.argv[1])
    plt.rcParams.update(
        {"svg.hashsalt": "kumade", "text.color": INK, "axes.labelcolor": INK, "axes.edgecolor": INK, "xtick.color": INK, "ytick.color": INK}
    )
    for name, draw in (("python-accuracy", accuracy), ("python-fairness", fairness)):
        plot = draw()
        plot.legend(frameon=False, fontsize="small")
        plot.figure.savefig(directory / f"{name}.svg", metadata={"Date": None})
        print(f"wrote {directory / name}.svg")


if __name__ == "__main__":
    main()
