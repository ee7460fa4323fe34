import numpy as np
import pytest

from pymc_kbr.arrays import threads
from pymc_kbr.arrays.threads import parallel_map, product, product_over_rows, row_parts


@pytest.mark.parametrize("rows", [0, 1, 7, 2500, 2501, 10_007])
def test_parts_hold_every_row_once_and_are_of_about_one_size(rows):
    parts = row_parts(rows)
    np.testing.assert_array_equal(np.concatenate([np.arange(rows)[part] for part in parts]), np.arange(rows))
    sizes = [part.stop - part.start for part in parts]
    assert max(sizes) <= 2500
    assert max(sizes) - min(sizes) <= 1


def test_products_are_those_of_the_whole_to_the_last_bit_on_any_number_of_cores(monkeypatch):
    rng = np.random.default_rng(0)
    a, b, right = rng.normal(size=(6000, 30)), rng.normal(size=(6000, 7)), rng.normal(size=(30, 5))
    found = []
    for count in (1, 3):
        for module in (threads,):
            monkeypatch.setattr(module, "cores", lambda count=count: count)
        with parallel_map(len(row_parts(len(a)))) as map_:
            columns = product(a, right[:, 0], map_)
            found.append((product(a, right, map_), product_over_rows(a, b, map_), columns))
    for one, other in zip(*found, strict=True):
        np.testing.assert_array_equal(one, other)
    np.testing.assert_allclose(found[0][0], a @ right, atol=1e-11)
    np.testing.assert_allclose(found[0][1], a.T @ b, atol=1e-9)
    np.testing.assert_allclose(found[0][2], a @ right[:, 0], atol=1e-11)
