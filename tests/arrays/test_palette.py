import itertools
import re
from pathlib import Path

import numpy as np
import pytest

import pymc_kbr
from pymc_kbr.arrays.pictures import palette

PACKAGE = Path(pymc_kbr.__file__).parent

# Machado, Oliveira and Fernandes 2009, severity 1.0, on linear RGB.
SEEN = {
    "by most": np.eye(3),
    "without red": np.array(
        [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]]
    ),
    "without green": np.array(
        [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.011820, 0.042940, 0.968881]]
    ),
    "without blue": np.array(
        [[1.255528, -0.076749, -0.178779], [-0.078411, 0.930809, 0.147602], [0.004733, 0.691367, 0.303900]]
    ),
}


def linear_rgb(colour):
    value = np.array([int(colour[i : i + 2], 16) for i in (1, 3, 5)]) / 255
    return np.where(value <= 0.04045, value / 12.92, ((value + 0.055) / 1.055) ** 2.4)


def lab(rgb):
    """CIE L*a*b* of linear RGB, white D65."""
    to_xyz = np.array(
        [[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]]
    ) / np.array([[0.9505], [1.0], [1.089]])
    xyz = to_xyz @ np.clip(rgb, 0, 1)
    f = np.where(xyz > (6 / 29) ** 3, np.cbrt(xyz), xyz / (3 * (6 / 29) ** 2) + 4 / 29)
    return np.array([116 * f[1] - 16, 500 * (f[0] - f[1]), 200 * (f[1] - f[2])])


@pytest.mark.parametrize("eye", SEEN)
def test_colours_of_lines_are_told_apart_by_every_eye(eye):
    seen = [lab(SEEN[eye] @ linear_rgb(colour)) for colour in palette.COLOURS]
    nearest = min(np.linalg.norm(a - b) for a, b in itertools.combinations(seen, 2))
    assert nearest > 10  # a difference of two is seen side by side


def test_what_is_found_stands_out_from_what_is_known_on_grey_paper_too():
    lightness = {
        name: lab(linear_rgb(getattr(palette, name)))[0] for name in ("POSTERIOR", "PRIOR", "TRUTH", "BAND")
    }
    assert lightness["PRIOR"] - lightness["POSTERIOR"] > 30
    assert lightness["BAND"] - lightness["POSTERIOR"] > 30
    assert lightness["POSTERIOR"] - lightness["TRUTH"] > 30


def test_lines_of_one_picture_differ_in_colour_and_in_dashes():
    styles = [palette.line_style(i) for i in range(len(palette.COLOURS))]
    for key in ("color", "linestyle"):
        assert len({str(style[key]) for style in styles}) == len(styles)


def test_no_study_takes_colours_that_some_cannot_tell_apart():
    for path in (PACKAGE.parent / "case_studies").rglob("*.py"):
        assert not re.search(r"\"tab:|\"C\d\"|\"red\"|\"green\"", path.read_text()), path


def test_no_plot_has_colours_of_its_own():
    own = re.compile(r"#[0-9a-f]{6}\b|tab:\w+|color=\"|cmap=\"|\"C\d\"")
    for path in PACKAGE.rglob("*.py"):
        if path.name != "palette.py":
            assert own.findall(path.read_text()) == [], path
