r"""Preparation steps that treat every column by its own different values: indicators, and normal scores.

For a column with the different training values $v_1 < \dots < v_k$, found $c_1, \dots, c_k$ times among $n$ rows:

- `onehot`: where the values look like codes, the column becomes $(1[x = v_1], \dots, 1[x = v_k])$. Values look like
  codes if there are at least 3 of them, at most 12 or as many as the argument says, and every one is there twice or
  more on average, $n \ge 2k$. Whole numbers are not asked for: codes may have been scaled.
- `ranks`: $v_i$ becomes $\Phi^{-1}\bigl((r_i - \tfrac12)/n\bigr)$ with its midrank
  $r_i = c_1 + \dots + c_{i-1} + (c_i + 1)/2$. Between two values new ones are interpolated; outside they get the score
  of the nearest end, so no new row lies further out than the training rows do.

Both maps are one-to-one on the training values: different rows stay different, equal ones equal. Nothing is summed over
columns or rows when they are applied, so a row gets the same bits alone and in a batch.
"""

from __future__ import annotations

import numpy as np

from wideproof.data.dataset import AnyDataset
from wideproof.data.step import Step
from wideproof.errors import InputError

LEAST_VALUES, MOST_VALUES = 3, 12  # of a column that becomes indicators


def fit_onehot(data: AnyDataset, argument: str) -> Step:
    """Find the columns that hold codes, and their values."""
    if argument and not (argument.isascii() and argument.isdigit() and int(argument) >= LEAST_VALUES):
        raise InputError(
            f"`onehot` needs the largest number of values of a column, at least {LEAST_VALUES}, got '{argument}': "
            f"try onehot({MOST_VALUES})"
        )
    most = min(int(argument or MOST_VALUES), data.n // 2)
    found = [np.unique(column) for column in data.x.T]
    codes = [values if LEAST_VALUES <= len(values) <= most else values[:0] for values in found]
    sizes = [len(values) for values in codes]
    settings = (("most", int(argument or MOST_VALUES)), ("columns", int(np.count_nonzero(sizes))))
    return Step("onehot", settings, (("values", np.concatenate(codes)), ("sizes", np.array(sizes))))


def onehot(step: Step, x: np.ndarray) -> np.ndarray:
    """Write indicators in the place of every column of codes; an unknown value has none that is 1."""
    columns = zip(x.T, _per_column(step, "values"), strict=True)
    parts = [column[:, None] == values if len(values) else column[:, None] for column, values in columns]
    return np.concatenate(parts, axis=1, dtype=np.float64)


def fit_ranks(data: AnyDataset, _: str) -> Step:
    """Give every different value of a column its normal score."""
    from scipy.special import ndtri

    found = [np.unique(column, return_counts=True) for column in data.x.T]
    scores = [ndtri((np.cumsum(counts) - counts / 2) / data.n) for _values, counts in found]
    arrays = (
        ("values", np.concatenate([values for values, _counts in found])),
        ("scores", np.concatenate(scores)),
        ("sizes", np.array([len(values) for values, _counts in found])),
    )
    return Step("ranks", arrays=arrays)


def ranks(step: Step, x: np.ndarray) -> np.ndarray:
    """Replace every number by its score."""
    columns = zip(x.T, _per_column(step, "values"), _per_column(step, "scores"), strict=True)
    return np.column_stack([_scored(column, values, scores) for column, values, scores in columns])


def _scored(x: np.ndarray, values: np.ndarray, scores: np.ndarray) -> np.ndarray:
    """Interpolate linearly; a training value gets its own score to the last bit."""
    after = np.clip(np.searchsorted(values, x), 0, len(values) - 1)
    low, high = np.maximum(after - 1, 0), after
    with np.errstate(over="ignore"):
        unit = np.where(np.isfinite(values[high] - values[low]), 1.0, 0.5)  # numbers near the largest are halved
    reach = unit * values[high] - unit * values[low]
    share = (unit * np.clip(x, values[0], values[-1]) - unit * values[low]) / np.where(reach > 0, reach, 1.0)
    between = scores[low] + share * (scores[high] - scores[low])
    return np.where(x >= values[high], scores[high], np.clip(between, scores[low], scores[high]))


def _per_column(step: Step, key: str) -> list[np.ndarray]:
    ends = np.cumsum(step.array("sizes").astype(int))
    return np.split(step.array(key), ends[:-1])
