"""Every argument of every public function refuses what it cannot take, in words that name it."""

import re

import pytest

from tests.refused_kinds import ALIASES, KINDS, all_calls, outcome, taken

CALLS = list(all_calls())


@pytest.mark.parametrize(("name", "call", "argument"), CALLS, ids=[f"{name}-{of}" for name, _, of in CALLS])
def test_wrong_kinds_are_refused_by_the_name_of_the_argument(name, call, argument, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for kind in KINDS.keys() - taken(name, argument):
        found = outcome(call, argument, kind)
        assert found.startswith("refused"), f"{argument} of {kind}: {found}"
        words = found.split(": ", 1)[1]
        assert re.search(ALIASES.get(argument, argument), words), f"{argument} of {kind}: {found}"


def test_no_public_function_is_forgotten():
    import pymc_kbr as pk

    classes = {name for name in pk.__all__ if isinstance(getattr(pk, name), type)}
    tried = {name.split()[0] for name, _, _ in CALLS}
    known = {"ESTIMATORS", "causal_learn_test"}  # which needs an optional package
    assert set(pk.__all__) - classes - tried <= known
