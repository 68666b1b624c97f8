"""Small real data sets that come with scikit-learn: no download, no file.

| name            | examples         | input                                                | task         |
|-----------------|------------------|------------------------------------------------------|--------------|
| `digits`        | 1797 (8x8 scans) | 64 grey values 0..16                                 | 10 classes   |
| `digits-images` | the same         | 8 channels x 8 pixels: the image rows are channels   | 10 classes   |
| `digits-rows`   | the same         | a sequence of 8 tokens of 8 values, from the top row | 10 classes   |
| `breast_cancer` | 569              | 30 measurements                                      | 2 classes    |
| `wine`          | 178              | 13 measurements                                      | 3 classes    |
| `iris`          | 150              | 4 measurements                                       | 3 classes    |
| `diabetes`      | 442              | 10 measurements                                      | regression   |

The networks of the papers convolve along one axis of pixels, so an 8x8 scan is given as 8 channels (its
rows) of 8 pixels: a filter then sees all rows of neighbouring columns.
"""

from typing import Any

import numpy as np

from wideproof.data.labels import Kind

_SOURCES: dict[str, tuple[str, Kind]] = {
    "digits": ("load_digits", "vectors"),
    "digits-images": ("load_digits", "images"),
    "digits-rows": ("load_digits", "sequences"),
    "breast_cancer": ("load_breast_cancer", "vectors"),
    "wine": ("load_wine", "vectors"),
    "iris": ("load_iris", "vectors"),
    "diabetes": ("load_diabetes", "vectors"),
}
BUNDLED = tuple(_SOURCES)


def bundled(name: str) -> tuple[np.ndarray, np.ndarray, Kind]:
    """Return `(x, labels, kind)` of a bundled data set; labels are class names, or numbers for regression.

    >>> x, labels, kind = bundled("digits-rows")
    >>> x.shape, labels[:3].tolist(), kind
    ((1797, 8, 8), [0, 1, 2], 'sequences')
    """
    from sklearn import datasets

    loader, kind = _SOURCES[name]
    bunch: Any = getattr(datasets, loader)()
    x, labels = bunch.data, bunch.target
    if loader == "load_digits":
        x = bunch.images if kind != "vectors" else x
    elif hasattr(bunch, "target_names"):
        labels = np.asarray(bunch.target_names)[labels]
    return x, labels, kind
