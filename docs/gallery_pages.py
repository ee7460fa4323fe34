"""Each problem of the gallery's README as a page of the site, with its simulator."""

from __future__ import annotations

import re
from typing import NamedTuple

CODE = {
    "An epidemic": ("problems", "epidemic", "_of_epidemic"),
    "Prey that nobody sees": ("problems", "unseen_prey", "_of_prey"),
    "g-and-k": ("problems", "g_and_k", "_of_g_and_k"),
    "Ricker's map": ("problems", "ricker", "_of_ricker"),
    "A queue": ("problems", "queue", "_of_queue"),
    "Two models in one": ("problems", "two_models", "_of_two_models"),
    "A series of 4,096 points": ("asked_problems", "series", "autocovariances", "of_series"),
    "One parameter of an exponential": ("asked_problems", "of_waits"),
    "A hundred statistics, a thousand simulations": ("asked_problems", "hundred", "of_hundred"),
}
"""File and functions by the heading of the README's section."""

LISTED = """
```{{toctree}}
:maxdepth: 1

{names}
```

"""
SHOWN = """
```{{literalinclude}} ../../../case_studies/gallery/{file}.py
:language: python
:pyobject: {name}
```
"""


class Pages(NamedTuple):
    """The page that remains, and the others by their names."""

    overview: str
    problems: dict[str, str]


def slug(heading: str) -> str:
    """A page's name."""
    return re.sub(r"\W+", "_", heading.lower().replace("'", "")).strip("_")


def split(readme: str) -> Pages:
    """Take the problems' sections out of the README, which lists them in their place.

    Parameters
    ----------
    readme : str

    Returns
    -------
    Pages

    Raises
    ------
    ValueError
        If a problem has no section.
    """
    problems = {}
    for heading, (file, *names) in CODE.items():
        found = re.search(rf"^(##+) {re.escape(heading)}\n(.*?)(?=^##|\Z)", readme, re.M | re.S)
        if found is None:
            raise ValueError(f"the gallery has no section {heading!r}")
        code = "".join(SHOWN.format(file=file, name=name) for name in names)
        about = "{doc}`How this was measured <../gallery>`.\n"
        problems[slug(heading)] = f"# {heading}\n{found[2]}{about}\n## In code\n{code}"
        readme = readme.replace(found[0], f"<{slug(heading)}>\n")
    listed = re.compile(r"(?:<\w+>\n)+")
    return Pages(
        listed.sub(
            lambda run: LISTED.format(names="\n".join(f"gallery/{n}" for n in re.findall(r"\w+", run[0]))),
            readme,
        ),
        problems,
    )
