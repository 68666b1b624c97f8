"""What the four papers are called, by the keys that every option and column has."""

PAPERS = {
    "du2019": "Du et al. 2019", "zou2018": "Zou et al. 2018", "allenzhu2018": "Allen-Zhu et al. 2018",
    "frei2019": "Frei et al. 2019",
}  # fmt: skip
