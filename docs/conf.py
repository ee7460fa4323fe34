"""Settings of the site: ``sphinx-build -W docs docs/_build/html``."""

import re
import sys
from importlib.metadata import version as version_of
from pathlib import Path

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE))
import gallery_pages  # noqa: E402

ROOT = HERE.parent

project = "pymc_kbr"
author = "the pymc_kbr developers"
release = version = version_of("pymc_kbr")
extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.autosummary", "sphinx.ext.mathjax", "numpydoc"]
html_theme = "pymc_sphinx_theme"
html_title = "pymc_kbr"
html_theme_options = {
    "use_edit_page_button": False,
    "secondary_sidebar_items": ["page-toc"],
    "navbar_end": [],
    "use_search_override": False,  # no second field that leaves this site
    "header_links_before_dropdown": 4,
}
html_sidebars = {"**": []}
html_show_sourcelink = False
html_static_path = ["_static"]
html_css_files = ["narrow.css"]
exclude_patterns = ["_build", "generated/**/README.md"]
myst_heading_anchors = 3
myst_enable_extensions = ["colon_fence", "deflist"]
autosummary_generate = True
autodoc_typehints = "none"
numpydoc_show_class_members = False
templates_path = ["_templates"]
# Citations of docstrings that the text of the docstring does not number.
suppress_warnings = ["ref.footnote"]


def without_files(text: str, depth: str) -> str:
    """Links of the repository as those of the site: to its pages where there are such, else words alone."""

    def link(found: re.Match[str]) -> str:
        words, target = found[1], found[2]
        if target.startswith(("http", "#")):
            return found[0]
        study = re.fullmatch(r"(?:\.\./)*(?:case_studies/)?(\w+)/README\.md(#.*)?", target)
        if study and (ROOT / "case_studies" / study[1] / "README.md").exists():
            return f"[{words}]({depth}studies/{study[1]}.md{study[2] or ''})"
        if target.endswith(".png") or (target.endswith(".md") and "/" not in target):
            return found[0]
        return words

    return re.sub(r"(?<!!)\[((?:!\[[^\]]*\]\([^)]*\)|[^\[\]])*)\]\(([^()\s]+)\)", link, text)


def write(made: Path, text: str) -> None:
    """Write a page if it is another one, so that Sphinx does not read it anew."""
    made.parent.mkdir(exist_ok=True)
    if not made.exists() or made.read_text() != text:
        made.write_text(text)


def write_studies() -> None:
    """A page of each case study's README, with its pictures."""
    folder = HERE / "studies"
    folder.mkdir(exist_ok=True)
    for readme in sorted(ROOT.glob("case_studies/*/README.md")):
        study = readme.parent.name
        text = re.sub(r"\]\((\w+\.md)\)", r"](../\1)", readme.read_text())
        text = re.sub(r"(!\[[^\]]*\]\()(\w+\.png)\)", rf"\1../../case_studies/{study}/\2)", text)
        if study == "gallery":
            text, problems = gallery_pages.split(text)
            for name, of_problem in problems.items():
                write(folder / study / f"{name}.md", without_files(of_problem, "../../"))
        write(folder / f"{study}.md", without_files(text, "../"))


def read_page(app: object, name: str, source: list[str]) -> None:
    """Take links to files of the repository for links of the site."""
    if name == "papers":
        source[0] += (ROOT / "pymc_kbr" / "README.md").read_text().split("\n", 1)[1]
    if not name.startswith(("studies/", "generated/")):
        source[0] = without_files(source[0], "")


def setup(app: object) -> None:
    """Register what is done when pages are read."""
    write_studies()
    app.connect("source-read", read_page)
