"""The column of dates of a table, and its last rows: what comes later is predicted from what was there before."""

import numpy as np

from wideproof.data.dataset import AnyDataset, Dataset


def date_column(data: AnyDataset) -> tuple[str, np.ndarray] | None:
    """Return the first column of dates.

    Parameters
    ----------
    data
        The data as loaded, before any preparation.

    Returns
    -------
    tuple[str, array] | None
        Its name, and the days of all rows; `None` if there is no such column.

    Examples
    --------
    >>> import pandas as pd
    >>> from wideproof.data import load
    >>> days = pd.to_datetime(["2026-01-02", "2026-01-01", "2026-01-05"])
    >>> date_column(load(pd.DataFrame({"day": days, "a": [1.0, 2.0, 0.0], "y": [3.1, 4.2, 5.3]})))
    ('day', array([20455., 20454., 20458.]))
    """
    encoding = data.encoding
    if not isinstance(data, Dataset) or encoding is None or len(encoding.inputs) != data.x.shape[1]:
        return None
    for column in encoding.columns:
        if column.kind == "date":
            values = data.x[:, encoding.inputs.index(column.inputs[0])]
            if np.ptp(values) > 0:
                return column.name, values
    return None


def last_rows(when: np.ndarray, share: float) -> np.ndarray | None:
    """Return the last rows in time; rows with equal times stay together.

    Parameters
    ----------
    when
        The time of every row.
    share
        The share of the rows to return, approximately; between 0 and 1.

    Returns
    -------
    array | None
        Positions of rows; `None` if they would be more than half of all.

    Examples
    --------
    >>> last_rows(np.array([3.0, 1.0, 2.0, 3.0, 0.0]), 0.2).tolist()
    [0, 3]
    """
    cut = np.sort(when)[len(when) - max(1, round(share * len(when)))]
    later = np.flatnonzero(when >= cut)
    return later if len(later) <= len(when) / 2 else None
