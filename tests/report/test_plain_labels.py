"""Labels of logarithmic axes as plain text: the numbers of Matplotlib's own labels, and no formula."""

import numpy as np
import pytest
from matplotlib.figure import Figure

from wideproof.report.figures import in_plain_text, label_plainly


@pytest.mark.parametrize(("low", "high"), [(1e-13, 1e-2), (1.5, 8.0), (20.0, 3e5)])
def test_labels_say_the_same(low, high):
    labels = []
    for change in (lambda figure: None, label_plainly):
        figure = Figure(layout="constrained")
        axes = figure.add_subplot()
        axes.semilogy([0, 1], [low, high])
        change(figure)
        figure.draw_without_rendering()
        ticks = [*axes.yaxis.get_major_ticks(), *axes.yaxis.get_minor_ticks()]
        labels.append([tick.label1.get_text() for tick in ticks])
    formulas, plain = labels
    assert any(plain)
    assert not any("$" in label for label in plain)
    assert plain == [in_plain_text(label) for label in formulas]


@pytest.mark.parametrize("power", [-300, -7, 0, 12])
def test_powers_are_read_back(power):
    raised = in_plain_text(rf"$\mathdefault{{3\times10^{{{power}}}}}$")
    head, _, exponent = raised.partition("×10")
    digits = exponent.translate(str.maketrans("⁻⁰¹²³⁴⁵⁶⁷⁸⁹", "-0123456789"))
    assert np.isclose(float(f"{head}e{digits}"), float(f"3e{power}"), rtol=1e-12, atol=0)
