"""Where the figures of the tables of the filtering study are from."""

from __future__ import annotations

import pandas as pd

from tests.case_studies.readme_figures import Table, frame, number, word

FILTERING = "filtering"
METHODS = ("observation", "particles", "ekf", "ukf", "original", "importance_weighted", "default")


def kalman() -> pd.DataFrame:
    """Means over runs, a line for the filter and one for the smoother."""
    return frame(FILTERING, "kalman").groupby(["n", "kind"]).mean().reset_index()


def surveys() -> pd.DataFrame:
    """Means over runs, a line a method."""
    return frame(FILTERING, "surveys").groupby("method").mean().reset_index()


CIRCLES = Table(
    lambda: frame(FILTERING, "circles_means"),
    {"dynamics": word(0), "n": number(1)},
    {
        2: ["runs"],
        **{place: [method] for place, method in enumerate(METHODS, 3)},
        10: ["p_importance_weighted"],
    },
    of_keys=(0, 1),
)
KNOWN = Table(
    lambda: frame(FILTERING, "known_transition"),
    {"dynamics": word(0)},
    {1: ["runs"], 2: ["importance_weighted"], 3: ["default"], 4: ["known_transition"], 5: ["particles"]},
)
KALMAN = Table(
    kalman,
    {"kind": word(0), "n": number(1)},
    {2: ["distance"], 3: ["mean_distance"], 4: ["coverage"], 5: ["exact_coverage"], 6: ["width_over_exact"]},
    of_keys=(0, 1),
)
SURVEYS = Table(surveys, {"method": word(0)}, {1: ["rmse"], 2: ["coverage"]})
IMAGES = Table(
    lambda: frame(FILTERING, "images_means"),
    {"problem": word(0), "n": number(1)},
    {2: ["runs"], 3: ["original"], 4: ["importance_weighted"], 5: ["learnt_features"], 6: ["recurrent"]},
    of_keys=(0, 1),
)
CAMERA = Table(
    lambda: frame(FILTERING, "camera_means"),
    {"noise": number(0), "method": word(1)},
    {2: ["runs"], 3: ["error"], 4: ["error_of_rotation"], 5: ["seconds"]},
    of_keys=(0, 1),
)


def steps() -> pd.DataFrame:
    """The newest line of each size of `benchmark.csv`: milliseconds of a step and of a bare solve."""
    lines = frame("speed", "benchmark")
    told = lines["what"].str.extract(r"^filter, (?P<solver>.*), n = (?P<n>[\d,]+), a step of")
    found = lines.join(told).dropna(subset=["n"]).drop_duplicates(["solver", "n"], keep="last")
    ours, other = (found[side].str.removesuffix(" ms").astype(float) for side in ("ours", "other"))
    rows = found["n"].str.replace(",", "").astype(float)
    return found.assign(n=rows, step=ours, bare=other)


STEPS = Table(steps, {"n": number(1)}, {2: ["step"], 3: ["bare"], 4: ["ratio"]}, of_keys=(0, 1))
MEASURES = {
    place: [name]
    for place, name in enumerate(
        (
            "filter_before",
            "filter_after",
            "smooth_before",
            "smooth_after",
            "filter_width_before",
            "filter_width_after",
            "filter_coverage_after",
            "smooth_width_after",
            "smooth_coverage_after",
        )
    )
}
LINEAR = Table(
    lambda: frame(FILTERING, "linear"),
    {"columns": number(0), "noise": number(1)},
    {place + 2: name for place, name in MEASURES.items()},
    of_keys=(0, 1),
)
SYSTEMS = Table(
    lambda: frame(FILTERING, "systems"),
    {"system": word(0)},
    {place + 1: name for place, name in MEASURES.items()},
)
OUTSIDE = Table(
    lambda: frame(FILTERING, "outside"),
    {"observation": number(0)},
    {1: ["exact"], 2: ["mean_before"], 3: ["mean_after"], 4: ["low_after"], 5: ["high_after"]},
    of_keys=(0,),
)
TABLES = [CIRCLES, KNOWN, LINEAR, SYSTEMS, OUTSIDE, KALMAN, SURVEYS, IMAGES, CAMERA, STEPS]
