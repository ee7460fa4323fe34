"""Rows read a part at a time are the rows."""

import numpy as np
import pytest

from pymc_kbr.arrays.chunks import Chunks, is_chunked, physical_memory
from pymc_kbr.arrays.neighbours import Merge, Tree, neighbours_of
from pymc_kbr.arrays.scaling import Scaler
from pymc_kbr.estimators.estimator import Moments, scan_table

ROWS = np.random.default_rng(4).normal([1.0, 50.0, -3.0], [1.0, 20.0, 1e-3], size=(1003, 3))


class Source:
    """Slices of an array, which are counted."""

    def __init__(self, rows=ROWS, **parts):
        self.rows, self.read, self.shape, self.ndim = rows, [], rows.shape, rows.ndim
        vars(self).update(parts)

    def __getitem__(self, part):
        self.read.append(part)
        return self.rows[part]


@pytest.fixture(params=[{}, {"chunks": (64, 3)}, {"chunks": ((64, 64), (3,))}, {"chunk_rows": 300}])
def source(request, set_default):
    set_default(Chunks.__init__, block_rows=256)
    return Source(**request.param)


def test_blocks_are_all_rows_once_in_order(source):
    parts = list(Chunks(source).blocks())
    np.testing.assert_array_equal(np.concatenate([rows for _, rows in parts]), ROWS)
    for part, rows in parts:
        np.testing.assert_array_equal(ROWS[part], rows)
    assert len(source.read) == len(parts)
    # A chunk of the source is not cut, and a block is about as large as it may be.
    step = {64: 256, 300: 300}.get(getattr(source, "chunk_rows", 0) or 64, 256)
    assert parts[0][0] == slice(0, step)
    assert parts[-1][0].stop == len(Chunks(source)) == 1003


def test_chunks_much_larger_than_a_block_are_cut(set_default):
    set_default(Chunks.__init__, block_rows=100)
    assert next(Chunks(Source(chunk_rows=400)).blocks())[0] == slice(0, 400)
    assert next(Chunks(Source(chunk_rows=401)).blocks())[0] == slice(0, 100)


def test_rows_by_number_are_read_at_most_once_a_block(source):
    numbers = np.random.default_rng(1).integers(0, 1003, 60)
    chunks = Chunks(source)
    np.testing.assert_array_equal(chunks[numbers], ROWS[numbers])
    assert len(source.read) <= 5
    np.testing.assert_array_equal(chunks[3:700], ROWS[3:700])
    np.testing.assert_array_equal(chunks[-5:], ROWS[-5:])
    assert chunks[np.empty(0, dtype=int)].shape == (0, 3)


def test_a_change_is_made_on_the_way(source):
    changed = Chunks(source, lambda rows: rows[:, :2] * 2)
    np.testing.assert_array_equal(changed[np.array([7, 900, 2])], 2 * ROWS[[7, 900, 2], :2])
    np.testing.assert_array_equal(np.concatenate([b for _, b in changed.blocks()]), 2 * ROWS[:, :2])
    assert changed[np.empty(0, dtype=int)].shape == (0, 2)


def test_arrays_in_memory_are_no_chunks():
    assert not is_chunked(ROWS)
    assert not is_chunked([[1.0]])
    assert is_chunked(Source())


def test_moments_of_blocks_are_those_of_all_rows():
    rows = ROWS * [1.0, 1e306, 1e-300]
    moments = Moments()
    for part in np.array_split(rows, [1, 7, 400]):
        moments.add(part)
    whole = Scaler.fit(rows)
    made = moments.scaler(True)
    np.testing.assert_allclose(made.centre, whole.centre, rtol=1e-10)
    np.testing.assert_allclose(made.scale, whole.scale, rtol=1e-10)
    np.testing.assert_array_equal(moments.lowest, rows.min(axis=0))
    np.testing.assert_array_equal(moments.highest, rows.max(axis=0))
    assert moments.count == 1003
    np.testing.assert_array_equal(moments.scaler(False).scale, 1.0)


def test_a_scan_is_scales_and_a_sample(set_default):
    set_default(Chunks.__init__, block_rows=256)
    set_default(scan_table, sampled=100)
    set_default(scan_table, for_choices=30)
    theta = ROWS[:, :2]
    scan = scan_table(Chunks(Source(theta)), Chunks(Source()), True)
    np.testing.assert_allclose(scan.scaler.transform(ROWS), Scaler.fit(ROWS).transform(ROWS), atol=1e-9)
    np.testing.assert_allclose(scan.deviation, theta.std(axis=0))
    np.testing.assert_array_equal(scan.statistics, ROWS[scan.rows])
    np.testing.assert_array_equal(scan.parameters, theta[scan.rows])
    few = np.round(np.linspace(0, 1002, 30)).astype(int)
    np.testing.assert_array_equal(scan.rows[scan.few], few)
    assert set(np.round(np.linspace(0, 1002, 100)).astype(int)) | set(few) == set(scan.rows)
    assert np.all(np.diff(scan.rows) > 0)
    assert scan_table(Chunks(Source(theta)), Chunks(Source()), False).scaler.scale.tolist() == [1.0] * 3


@pytest.mark.parametrize("side", ["parameters", "statistics"])
def test_a_scan_names_the_first_row_that_is_not_finite(side, set_default):
    set_default(Chunks.__init__, block_rows=256)
    bad = ROWS.copy()
    bad[700, 1], bad[701, 0] = np.nan, np.inf
    sides = {"parameters": ROWS, "statistics": ROWS, side: bad}
    with pytest.raises(ValueError, match=rf"2 row\(s\) of {side} hold NaN or infinity.*row 700"):
        scan_table(Chunks(Source(sides["parameters"])), Chunks(Source(sides["statistics"])), True)


@pytest.mark.parametrize("count", [1, 5, 300, 1003])
@pytest.mark.parametrize("offset", [0.0, 1e6])
def test_merged_neighbours_are_those_of_the_tree(count, offset, set_default):
    set_default(Chunks.__init__, block_rows=256)
    set_default(Merge.query, pairs=500)
    points = (ROWS - ROWS.mean(axis=0)) / ROWS.std(axis=0) + offset
    x = points[:4] + 0.1
    merge, tree = neighbours_of(Chunks(Source(points))), neighbours_of(points)
    assert isinstance(merge, Merge)
    assert isinstance(tree, Tree)
    distances, rows = merge.query(x, count)
    oracle = np.linalg.norm(points[None] - x[:, None], axis=2)
    np.testing.assert_array_equal(rows, np.argsort(oracle, axis=1, kind="stable")[:, :count])
    np.testing.assert_allclose(distances, np.sort(oracle, axis=1)[:, :count], rtol=1e-12)
    np.testing.assert_allclose(tree.query(x, count)[0], distances, rtol=1e-12)


def test_rows_at_the_same_distance_come_in_their_order():
    same = np.vstack([np.ones((5, 2)), np.zeros((1, 2))])
    assert Merge(Chunks(Source(same))).query(np.zeros((1, 2)), 6)[1].tolist() == [[5, 0, 1, 2, 3, 4]]


def test_memory_is_a_number_of_bytes(monkeypatch):
    assert 2**24 < physical_memory() < 2**60
    monkeypatch.setattr("os.sysconf", lambda name: 1 if name == "SC_PAGE_SIZE" else 1000)
    assert physical_memory() <= 1000

    def unknown(name):
        raise ValueError(name)

    monkeypatch.setattr("os.sysconf", unknown)
    assert physical_memory() == np.inf
