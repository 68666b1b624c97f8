"""The four papers as executable statements: each theorem, lemma and claim a function that returns a `Check`.

from wideproof.papers import zou2018

print(zou2018.theorem_5_1_iii())
"""

from wideproof.papers.check import Check as Check
from wideproof.papers.check import agrees as agrees
from wideproof.papers.check import at_least as at_least
from wideproof.papers.check import at_most as at_most
from wideproof.papers.check import conclude as conclude
from wideproof.papers.check import frequency as frequency
from wideproof.papers.check import identity as identity
from wideproof.papers.check import law as law
from wideproof.papers.check import often as often
from wideproof.papers.check import scales as scales
from wideproof.papers.check import sides as sides
from wideproof.papers.errata import TEXTS as TEXTS
from wideproof.papers.errata import Erratum as Erratum
from wideproof.papers.errata import Fault as Fault
from wideproof.papers.errata import counted as counted
from wideproof.papers.errata import errata as errata
from wideproof.papers.errata import noted as noted
from wideproof.papers.findings import Findings as Findings
from wideproof.papers.findings import describe as describe
from wideproof.papers.findings import examine as examine
from wideproof.papers.parallel import measure_here as measure_here
from wideproof.papers.references import BIBTEX as BIBTEX
from wideproof.papers.slopes import Slope as Slope
from wideproof.papers.statement import PAPERS as PAPERS
from wideproof.papers.statement import Measured as Measured
from wideproof.papers.statement import Statement as Statement
from wideproof.papers.statement import index as index
from wideproof.papers.statement import laboratory as laboratory
from wideproof.papers.statement import statements as statements
from wideproof.papers.stored import joined as joined
from wideproof.papers.stored import save_study as save_study
from wideproof.papers.stored import shortened as shortened
from wideproof.papers.stored import stored as stored
from wideproof.papers.study import SIZES as SIZES
from wideproof.papers.study import Lab as Lab
