"""The four papers as executable statements: each theorem, lemma and claim a function that returns a `Check`.

from wideproof.papers import zou2018

print(zou2018.theorem_5_1_iii())
"""

from wideproof.papers.check import Check as Check
from wideproof.papers.check import Outcome as Outcome
from wideproof.papers.errata import Erratum as Erratum
from wideproof.papers.errata import errata as errata
from wideproof.papers.statement import PAPERS as PAPERS
from wideproof.papers.statement import Measured as Measured
from wideproof.papers.statement import Statement as Statement
from wideproof.papers.statement import laboratory as laboratory
from wideproof.papers.statement import statements as statements
