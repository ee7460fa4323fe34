"""Run the Python of the pages: ``python docs/run_blocks.py [--write] [PAGE ...]``.

Blocks run in order, in one namespace a page and in an empty folder. With ``--write`` what one prints
is put into the text block that follows it, and pictures that the page shows are made anew.
"""

import argparse
import contextlib
import io
import os
import re
import tempfile
import time
import warnings
from pathlib import Path

HERE = Path(__file__).resolve().parent
FIGURES = {
    "first_steps": {1: "first_steps"},
    "calibration": {1: "calibration", 2: "joint_calibration", 3: "recovery"},
    "comparing": {1: "comparing"},
    "notebooks": {1: "notebooks"},
}
"""Pictures of a page, by the number of the figure that its blocks draw."""

BLOCK = re.compile(r"^```python\n(.*?)^```\n(\n```text\n.*?^```\n)?", re.MULTILINE | re.DOTALL)


def blocks(path: str | Path) -> list[str]:
    """The blocks of one page, in order."""
    return [found[1] for found in BLOCK.finditer(Path(path).read_text(encoding="utf-8"))]


def save_figures(page: str) -> None:
    """The pictures of a page whose blocks have just run."""
    import matplotlib.pyplot as plt

    for number, name in FIGURES.get(page, {}).items():
        plt.figure(number).savefig(HERE / "pictures" / f"{name}.png", dpi=110)
    plt.close("all")


def run(path: Path, write: bool = False) -> None:
    """Run the blocks of one page; an error names the block."""
    names: dict[str, object] = {"__name__": "page"}
    outputs = []
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for number, block in enumerate(blocks(path)):
            printed = io.StringIO()
            try:
                with contextlib.redirect_stdout(printed):
                    exec(compile(block, f"{path.name}, block {number}", "exec"), names)
            except Exception as error:
                raise RuntimeError(f"{path.name}, block {number} fails: {error}\n{block}") from error
            lines = [line.rstrip() for line in printed.getvalue().strip("\n").splitlines()]
            outputs.append("\n```text\n" + "\n".join(lines) + "\n```\n" if lines else "")
    if write:
        save_figures(path.stem)
        found = iter(outputs)
        text = path.read_text(encoding="utf-8")
        path.write_text(
            BLOCK.sub(lambda old: f"```python\n{old[1]}```\n{next(found)}", text), encoding="utf-8"
        )


if __name__ == "__main__":
    os.environ.setdefault("MPLBACKEND", "Agg")
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("pages", nargs="*", type=Path, default=sorted(HERE.glob("*.md")))
    parser.add_argument("--write", action="store_true", help="put what is printed into the pages")
    chosen = parser.parse_args()
    for page in chosen.pages:
        began = time.perf_counter()
        run(page.resolve(), chosen.write)
        print(f"{page.name}: {len(blocks(page))} blocks, {time.perf_counter() - began:.1f} s", flush=True)
