"""Run the Python of the pages: ``python docs/run_blocks.py [--write] [PAGE ...]``.

Blocks run in order, in one namespace a page and in an empty folder. With ``--write`` what one prints
is put into the text block that follows it, and pictures that the page shows are made anew. Blocks of the
class ``needs-X`` run where the package X is installed, and keep what stands there elsewhere; those of the
class ``cluster`` run in the tests alone, which make one.
"""

import argparse
import contextlib
import importlib.util
import io
import os
import re
import tempfile
import time
import warnings
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).resolve().parent
FIGURES = {
    "first_steps": {1: "first_steps"},
    "calibration": {1: "calibration", 2: "joint_calibration", 3: "recovery"},
    "comparing": {1: "comparing"},
    "notebooks": {1: "notebooks"},
}
"""Pictures of a page, by the number of the figure that its blocks draw."""

BLOCK = re.compile(
    r"^```(python|\{code-block\} python\n:class: (?P<classes>[^\n]*)\n)\n(?P<code>.*?)^```\n"
    r"(?P<output>\n```text\n.*?^```\n)?",
    re.MULTILINE | re.DOTALL,
)


@dataclass(frozen=True)
class Block:
    """Python of a page.

    Parameters
    ----------
    code : str
    output : str
        The text block that follows it, or nothing.
    needs : str
        A package beyond those of this project, or nothing.
    cluster : bool
        Whether it runs on many machines.
    """

    code: str
    output: str
    needs: str
    cluster: bool

    @property
    def runs(self) -> bool:
        """Whether it runs here."""
        return not self.cluster and (not self.needs or importlib.util.find_spec(self.needs) is not None)


def blocks(path: str | Path) -> list[Block]:
    """The blocks of one page, in order."""
    found = []
    for match in BLOCK.finditer(Path(path).read_text(encoding="utf-8")):
        classes = (match["classes"] or "").split()
        needs = "".join(name.removeprefix("needs-") for name in classes if name.startswith("needs-"))
        found.append(Block(match["code"], match["output"] or "", needs, "cluster" in classes))
    return found


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
            if not block.runs:
                outputs.append(block.output)
                continue
            printed = io.StringIO()
            try:
                with contextlib.redirect_stdout(printed):
                    exec(compile(block.code, f"{path.name}, block {number}", "exec"), names)
            except Exception as error:
                raise RuntimeError(f"{path.name}, block {number} fails: {error}\n{block.code}") from error
            lines = [line.rstrip() for line in printed.getvalue().strip("\n").splitlines()]
            outputs.append("\n```text\n" + "\n".join(lines) + "\n```\n" if lines else "")
    if write:
        save_figures(path.stem)
        found = iter(outputs)
        text = path.read_text(encoding="utf-8")
        path.write_text(
            BLOCK.sub(lambda old: f"```{old[1]}\n{old['code']}```\n{next(found)}", text), encoding="utf-8"
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
