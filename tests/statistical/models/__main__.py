"""``python -m tests.statistical.models``: `sample_abc` on every problem, against the exact posteriors.

With nothing said, by its defaults. A line is added to the output as soon as it is known, and models that have
one are left out: a command that was stopped goes on.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

from tests.statistical.models import PROBLEMS, references, running, scores

HERE = Path(__file__).parent
README = HERE / "README.md"

RECORDED = "results"
"""The name of the table that is kept, by the defaults, and of its marks in the README."""


def arguments() -> argparse.Namespace:
    """Of the command line."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.statistical.models",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("models", nargs="*", help="all where left out")
    parser.add_argument("--simulations", type=int, help="10,000 where left out")
    parser.add_argument("--estimator", help="a name, or adjusted:SCALE; 'auto' where left out")
    parser.add_argument("--rounds", help="handed on to `sample_abc` where it is given")
    parser.add_argument("--selection", help="handed on to `sample_abc` where it is given")
    parser.add_argument("--random_seed", help="1 where left out")
    parser.add_argument("--again", action="store_true", help="models that have a line, too")
    where = parser.add_mutually_exclusive_group()
    where.add_argument(
        "--record", action="store_true", help="into results.csv and the README, beside this file"
    )
    where.add_argument("--output", type=Path, help="into this file; else one for temporary files")
    return parser.parse_args()


def number_or_word(text: str) -> int | str:
    """As it is written in a call."""
    return int(text) if text.isdigit() else text


def main() -> None:
    """Run what has no line yet, print all lines and the summary."""
    options = arguments()
    unknown = sorted(set(options.models) - set(PROBLEMS))
    if unknown:
        sys.exit(f"there is no model {', '.join(unknown)}; there are {', '.join(PROBLEMS)}")
    settings = {
        name: number_or_word(str(getattr(options, name)))
        for name in ("simulations", "estimator", "rounds", "selection", "random_seed")
        if getattr(options, name) is not None
    }
    if not_taken := running.unknown_settings(settings):
        sys.exit(f"sample_abc does not take {', '.join(sorted(not_taken))}")
    if options.record and settings:
        sys.exit("only the defaults are recorded; leave --record or the settings out")
    path = (
        options.output
        or Path(tempfile.gettempdir()) / f"models{''.join(f'-{x}' for x in settings.values())}.csv"
    )
    path = HERE / f"{RECORDED}.csv" if options.record else path
    chosen = options.models or list(PROBLEMS)
    if options.again:
        running.leave_out(path, set(chosen))
    done = {line["model"] for line in running.read(path)}
    for name in chosen:
        if name not in done:
            running.append(path, running.run(PROBLEMS[name], **settings))
            print(f"{name}: written to {path}", file=sys.stderr, flush=True)
    lines = scores.lines_of(running.read(path), references.read())
    print(scores.markdown(lines), scores.summary(lines), sep="\n\n")
    if options.record:
        put_into_readme(RECORDED, lines)


def put_into_readme(name: str, lines: list[scores.Line]) -> None:
    """Replace what is between the README's marks of a table."""
    before, rest = README.read_text().split(f"<!-- {name} -->\n")
    after = rest.split(f"<!-- end of {name} -->\n")[1]
    table = f"{scores.summary(lines)}\n\n{scores.markdown(lines)}\n"
    README.write_text(f"{before}<!-- {name} -->\n{table}<!-- end of {name} -->\n{after}")


if __name__ == "__main__":
    main()
