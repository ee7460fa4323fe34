"""The picture of decisions: ``python docs/make_pictures.py``."""

from pathlib import Path

import matplotlib as mpl

mpl.use("Agg")
import matplotlib.pyplot as plt
from matplotlib.patches import FancyBboxPatch

HERE = Path(__file__).parent
BLUE, ORANGE, GREY = "#0072b2", "#e69f00", "0.25"


def which_estimator() -> None:
    """The questions that lead to an estimator."""
    asked = [
        ("Nothing special about the problem?", '"auto"', "tries several, keeps the best"),
        (
            "Independent trials, groups,\nor gradients inside PyMC?",
            '"kernel_likelihood"',
            "learns the likelihood",
        ),
        ("A new prior, known by draws alone?", '"kbr"', "kernel Bayes' rule"),
        ("More rows than memory holds?", '"localised"', "reads the nearest rows"),
        ("Only means wanted,\nand smooth posteriors?", '"conditional_mean"', "regression on all rows"),
        (
            "Several modes, or a bent posterior?",
            'pk.Adjusted(..., "joint_neighbours")',
            "one slope for each row",
        ),
    ]
    figure, ax = plt.subplots(figsize=(8.4, 6.6))
    ax.set_axis_off()
    ax.set(xlim=(0, 10), ylim=(-0.55, len(asked) + 0.5))
    arrow = {"arrowstyle": "-|>", "color": GREY, "lw": 1.3, "shrinkA": 0, "shrinkB": 0}

    def box(x: float, y: float, width: float, colour: str, words: str, below: str = "") -> None:
        shape = FancyBboxPatch(
            (x, y - 0.28), width, 0.56, boxstyle="round,pad=0.04", fc="white", ec=colour, lw=2
        )
        ax.add_patch(shape)
        middle = x + width / 2
        centred = {"ha": "center", "va": "center"}
        ax.text(middle, y + (0.12 if below else 0), words, fontsize=10.5, **centred)
        if below:
            ax.text(middle, y - 0.14, below, fontsize=9, color=GREY, **centred)

    for i, (question, answer, why) in enumerate(asked):
        y = len(asked) - i
        box(0.1, y, 4.2, BLUE, question)
        box(5.4, y, 4.5, ORANGE, answer, why)
        ax.annotate("", (5.36, y), (4.34, y), arrowprops=arrow)
        ax.text(4.82, y + 0.13, "yes", ha="center", fontsize=9.5)
        ax.annotate("", (2.2, y - 0.68), (2.2, y - 0.32), arrowprops=arrow)
        ax.text(2.32, y - 0.5, "no", va="center", fontsize=9.5)
    box(0.1, 0, 4.2, ORANGE, '"adjusted"', "nearest rows, moved by a regression")
    figure.savefig(HERE / "pictures" / "which_estimator.png", dpi=100, bbox_inches="tight")
    plt.close(figure)


if __name__ == "__main__":
    (HERE / "pictures").mkdir(exist_ok=True)
    which_estimator()
