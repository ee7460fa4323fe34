"""Pictures of the pages: ``python docs/make_pictures.py``."""

import re
from pathlib import Path

import matplotlib as mpl

mpl.use("Agg")
import matplotlib.pyplot as plt

HERE = Path(__file__).parent
BLUE, ORANGE, GREY = "#0072b2", "#e69f00", "0.25"


def first_steps() -> None:
    """The picture that the page's own code draws."""
    names: dict[str, object] = {}
    for block in re.findall(r"^```python\n(.*?)^```", (HERE / "first_steps.md").read_text(), re.M | re.S):
        exec(block, names)
    plt.gcf().savefig(HERE / "pictures" / "first_steps.png", dpi=110)
    plt.close()


def which_estimator() -> None:
    """The questions that lead to an estimator."""
    figure, ax = plt.subplots(figsize=(8, 4.6))
    ax.set_axis_off()
    ax.set_xlim(0, 10)
    ax.set_ylim(-1.2, 10)
    questions = [
        ("No wish of your own?", '"auto"\ntries twenty, keeps the best'),
        ("Independent trials, groups,\nor gradients in PyMC?", '"kernel_likelihood"'),
        ("Another prior, known by\ndraws alone?", '"kbr"'),
        ("More rows than memory holds?", '"localised"'),
        ("Expectations only,\nsmooth posteriors?", '"conditional_mean"'),
    ]
    for i, (question, answer) in enumerate(questions):
        y = 9 - 1.9 * i
        for x, words, colour in ((2.3, question, BLUE), (7.7, answer, ORANGE)):
            box = {"boxstyle": "round,pad=0.5", "fc": "white", "ec": colour, "lw": 1.8}
            ax.text(x, y, words, ha="center", va="center", fontsize=10, bbox=box)
        ax.annotate("yes", (5.6, y), (4.55, y), va="center", fontsize=9, color=GREY,
                    arrowprops={"arrowstyle": "->", "color": GREY})  # fmt: skip
        if i:
            ax.annotate("", (2.3, y + 0.62), (2.3, y + 1.28), arrowprops={"arrowstyle": "->", "color": GREY})
            ax.text(2.45, y + 0.95, "no", va="center", fontsize=9, color=GREY)
    ax.annotate("", (2.3, -0.35), (2.3, 0.75), arrowprops={"arrowstyle": "->", "color": GREY})
    ax.text(2.45, 0.2, "no", va="center", fontsize=9, color=GREY)
    ax.text(2.3, -0.75, '"adjusted"', ha="center", va="center", fontsize=10,
            bbox={"boxstyle": "round,pad=0.5", "fc": "white", "ec": ORANGE, "lw": 1.8})  # fmt: skip
    figure.savefig(HERE / "pictures" / "which_estimator.png", dpi=110, bbox_inches="tight")
    plt.close(figure)


if __name__ == "__main__":
    (HERE / "pictures").mkdir(exist_ok=True)
    which_estimator()
    first_steps()
