"""What is checked, each part in an environment of its own. `bash .ci/test` installs nox and calls it."""

import os
import re
import shutil
import subprocess
import sys
from functools import partial
from pathlib import Path

import nox
from nox.command import CommandFailed

nox.needs_version = ">=2026.10"  # sessions in parallel
nox.options.default_venv_backend = "uv|virtualenv"
nox.options.download_python = "never"
nox.options.sessions = ["lint", "tests"]
nox.options.allow_parallel = True
# Without bytecode every process that starts, and tests start many, compiles all of PyMC anew.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
os.environ.setdefault("OMP_NUM_THREADS", "1")
# C code of tests runs for moments: it takes longer to optimise.
os.environ.setdefault("PYTENSOR_FLAGS", "gcc__cxxflags=-O0")


def version_of(python):
    """The minor version of an interpreter, or 0 where it does not work or cannot make environments."""
    code = "import sys, venv; print(sys.version_info.minor)"
    words = subprocess.run([python, "-c", code], capture_output=True, text=True).stdout.strip()
    return int(words or 0)


def found(minor):
    """The interpreter of this version, on PATH or among pyenv's, or None."""
    pyenv = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv"))
    for candidate in ["python3", f"python3.{minor}", *sorted(pyenv.glob(f"versions/3.{minor}.*/bin/python"))]:
        path = shutil.which(str(candidate))
        if path and version_of(path) == minor:
            return path
    return None


EVERY = {minor: path for minor in (11, 12, 13, 14) if (path := found(minor))}
FIRST = os.environ.get("PYTHON") or shutil.which("python3") or sys.executable
LATER = next((EVERY[minor] for minor in (13, 12) if minor in EVERY and minor > version_of(FIRST)), None)


def install(session, *packages):
    """Install with uv, or with pip where uv finds nothing: pip alone knows of mirrors in its own settings."""
    try:
        session.install("--quiet", *packages)
    except CommandFailed:
        if session.venv_backend != "uv":
            raise
        session.log("uv did not install them: pip does")
        session.run("python", "-m", "ensurepip", silent=True)
        session.run("python", "-m", "pip", "install", "--quiet", "--no-compile", *packages)


def pytest(session, *options):
    session.run("python", "-m", "pytest", "-q", "-p", "no:cacheprovider", *options)


def all_tests(session, *options):
    code = """
import arviz, platform, pymc

print("Python", platform.python_version(), "PyMC", pymc.__version__, "ArviZ", arviz.__version__)
"""
    session.run("python", "-c", code)
    pytest(session, "-n", workers(), "--dist", "worksteal", "--durations=25", *options, *session.posargs)


def folders_of_arrays(session):
    code = "from tests.test_architecture import ARRAYS; print(*ARRAYS)"
    return session.run("python", "-c", code, silent=True).split()


def workers():
    """Processes of one suite: half as many as cores where two suites run side by side."""
    # More would fit the same models and compile the same graphs once more each.
    return str(max(1, (os.cpu_count() or 1) // (2 if share(1) else 1)))


def share(number):
    """With $SHARE, two interpreters share the tests that depend on no version."""
    return [f"--part={number}/2"] if LATER and os.environ.get("SHARE") else []


@nox.session(python=FIRST, tags=["ci"])
def tests(session):
    """All tests, with python3 or $PYTHON; options are pytest's."""
    install(session, "-e", ".[dev]")
    all_tests(session, *share(1))


@nox.session(python=LATER or FIRST, tags=["ci"])
def later(session):
    """With a later Python, whose PyMC and ArviZ are later, too: all tests but those that `arrays` runs."""
    if LATER is None:
        session.skip("NOT RUN: no Python 3.12 or 3.13 that is later than python3 is on PATH or among pyenv's")
    install(session, "-e", ".[dev]")
    all_tests(session, *share(2), *(f"--ignore=tests/{folder}" for folder in folders_of_arrays(session)))


@nox.session(python=FIRST, tags=["ci"])
def theirs(session):
    """What needs PyTorch: sbi's code on the pages, and the tests that other sessions skip; 6 GB."""
    free = shutil.disk_usage(session.virtualenv.location).free / 1e9
    wanted = 20  # half of it is taken, and others write beside
    if free < wanted:
        session.skip(f"NOT RUN: what needs PyTorch: {free:.0f} GB of disk are free, {wanted} are wanted")
    limit, line = os.environ.get("LIMIT"), [sys.executable, "-m", "uv", "pip", "install", "--quiet"]
    limited = ["timeout", limit, *line] if limit else line
    # What is downloaded goes with the environment.
    downloads = {"UV_CACHE_DIR": f"{session.virtualenv.location}/downloads"}
    try:
        session.run(*limited, "-e", ".[test,neural,rivals]", external=True, env=downloads)
    except CommandFailed:
        in_time = f" in {limit} seconds" if limit else ""
        session.skip(f"NOT RUN: what needs PyTorch: packages were not installed{in_time}")
    # Only these files: all of them take a minute to import.
    files = (path for path in Path("tests").rglob("test_*.py") if re.search(r"\btorch\b", path.read_text()))
    options = session.posargs or ["-m", "pytorch", "tests/test_readme.py", *map(str, files)]
    pytest(session, "-rs", *options)


@nox.session(python=FIRST, tags=["ci"])
def lowest(session):
    """Quick tests with the lowest versions that pyproject.toml allows and that have wheels here."""
    try:  # uv alone resolves to them
        session.install("--resolution=lowest-direct", "--only-binary=:all:", "-e", ".[test]")
    except CommandFailed:
        session.skip("NOT RUN: packages of lowest versions were not installed")
    # What they have most to do with: files, frames, stores, ArviZ, pictures, scikit-learn, Dask.
    names = "tables simulation/test_store.py simulation/test_cluster.py test_arviz.py test_data_sets.py"
    names += " test_every_plot.py test_labels_in_any_order.py estimators/test_saving.py test_architecture.py"
    options = session.posargs or ["--each-value-once", *(f"tests/{name}" for name in names.split())]
    pytest(session, "-m", "not (statistical or pages)", *options)


@nox.session(python=LATER or FIRST, tags=["ci"])
def arrays(session):
    """Folders that know arrays only, where NumPy, SciPy, scikit-learn and threadpoolctl are all there is."""
    install(session, "numpy", "scipy", "scikit-learn", "threadpoolctl", "pytest", "hypothesis")
    code = """
from importlib import import_module
from importlib.util import find_spec
from tests.test_architecture import ARRAYS, HEAVY, MODULES, OPTIONAL, inside, folder_of

assert not [name for name in HEAVY if find_spec(name)], "more is installed than arrays need"
for module, path in MODULES.items():
    if folder_of(module) in ARRAYS and inside(path) not in OPTIONAL:
        import_module(module)
"""
    session.run("python", "-c", code)
    pytest(
        session, *share(2), *session.posargs, *(f"tests/{folder}" for folder in folders_of_arrays(session))
    )


@nox.session(python=FIRST, tags=["ci"])
def docs(session):
    """The site of docs/ without warnings, into $SITE; with LINKS=1 links to other sites are visited."""
    install(session, "-e", ".[docs]")
    site = os.environ.get("SITE", "docs/_build/html")
    session.run("python", "-m", "sphinx", "-W", "--keep-going", "-q", "docs", site)
    if os.environ.get("LINKS"):
        session.run("python", "-m", "sphinx", "-b", "linkcheck", "-q", "docs", f"{site}/../links")


@nox.session(python=FIRST, tags=["ci"])
def lint(session):
    """Ruff and mypy, which reads for the lowest Python on every one."""
    install(session, "-e", ".[dev]")
    session.run("ruff", "check", ".")
    session.run("ruff", "format", "--check", ".")
    session.run("mypy")


@nox.session(python=FIRST, tags=["ci"])
def build(session):
    """The wheel of the source distribution, which so has to hold all it needs."""
    install(session, "build")
    shutil.rmtree(f"{session.cache_dir}/built", ignore_errors=True)
    session.run("python", "-m", "build", "--outdir", f"{session.cache_dir}/built", ".", silent=True)


def bare(session, pages):
    """What a user gets: the wheel alone imports and has every public name; code of the first pages runs."""
    install(session, *map(str, Path(session.cache_dir, "built").glob("*.whl")))
    code = """
import pymc_kbr as pk, sys
from pathlib import Path

home = Path(pk.__file__).parent
assert home.is_relative_to(sys.prefix), f"{home} is not what was installed"
assert {"py.typed", "__init__.pyi"} <= {path.name for path in home.iterdir()}
print(len([getattr(pk, name) for name in pk.__all__]), "public names")
"""
    texts = [Path(page).read_text() for page in pages]
    if session.venv_backend == "uv":
        session.run(sys.executable, "-m", "uv", "pip", "check", external=True)
    session.chdir(session.virtualenv.location)  # away from the checkout, whose package would be found first
    session.run("python", "-c", code)
    for text in texts:
        blocks = re.findall(r"^```python\n(.*?)^```", text, re.DOTALL | re.MULTILINE)
        Path("page.py").write_text("\n".join(blocks))
        session.run("python", "page.py")


for number, (minor, path) in enumerate(EVERY.items()):
    # Pages take most of the time: the README runs on the first and on the last Python, first steps on this.
    last = number == len(EVERY) - 1
    one = partial(bare, pages=["README.md"] * (number == 0 or last) + ["docs/first_steps.md"] * last)
    one.__doc__ = bare.__doc__
    nox.session(one, name=f"bare-3.{minor}", python=path, requires=["build"], tags=["ci"])
