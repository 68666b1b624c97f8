"""Draw README's picture of a proof: `python docs/picture.py` makes docs/_static/proof.svg from the demo."""

import tempfile
from pathlib import Path

import wideproof as wp
from wideproof.report import save_figure
from wideproof.report.proof_figures import loss_figure


def main() -> None:
    """Prove the demo and draw its loss, measured and proved."""
    with tempfile.TemporaryDirectory() as folder:
        proof = wp.prove("digits", classes=(0, 1), limit=200, folder=Path(folder) / "proof")
        figure = loss_figure(proof)
    assert figure is not None
    assert proof.proved
    save_figure(figure, Path(__file__).parent / "_static" / "proof.svg")


if __name__ == "__main__":
    main()
