"""Fitted estimators through skops: no pickle, the same bits afterwards, and no types to trust but our own."""

import numpy as np
import pandas as pd
import pytest

import wideproof as wp
from wideproof.estimators import InputPreparation

skops = pytest.importorskip("skops.io")
ESTIMATORS = {
    "regressor": (wp.NTKRegressor(), "predict"),
    "classifier": (wp.NTKClassifier(), "predict_proba"),
    "search": (wp.NTKClassifierCV(depths=(1,), activations=("relu",)), "predict"),
    "preparation": (InputPreparation(), "transform"),
    "finite width": (wp.WideNetRegressor(width=16, depth=1, steps=5), "predict"),
}


@pytest.mark.parametrize("name", ESTIMATORS)
def test_there_and_back(name, rng):
    model, method = ESTIMATORS[name]
    x = rng.normal(size=(30, 3))
    y = x[:, 0] if "regressor" in name or "width" in name else np.where(x[:, 0] > 0, "yes", "no")
    given = pd.DataFrame({"u": x[:, 0], "v": np.where(x[:, 1] > 0, "p", "q")}) if name == "classifier" else x
    written = skops.dumps(model.fit(given, y))
    needed = skops.get_untrusted_types(data=written)
    assert all(one.startswith("wideproof.estimators.") for one in needed)
    again = skops.loads(written, trusted=needed)
    assert np.array_equal(getattr(again, method)(given), getattr(model, method)(given))
    with pytest.raises(Exception, match=r"wideproof\.estimators"):
        skops.loads(written)  # nothing is trusted that is not named
