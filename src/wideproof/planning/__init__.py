"""Which network to train, before training anything: candidates ranked by their infinite-width Gram matrices."""

from wideproof.planning.candidates import Candidate as Candidate
from wideproof.planning.candidates import kind_of as kind_of
from wideproof.planning.evaluation import Row as Row
from wideproof.planning.evaluation import evaluate as evaluate
from wideproof.planning.gram_study import GramSettings as GramSettings
from wideproof.planning.gram_study import GramStudy as GramStudy
from wideproof.planning.gram_study import study_gram as study_gram
from wideproof.planning.plan import MOST_ROWS as MOST_ROWS
from wideproof.planning.plan import Plan as Plan
from wideproof.planning.plan import plan as plan
from wideproof.planning.proof import ProofNeed as ProofNeed
from wideproof.planning.proof import proof_needs as proof_needs
from wideproof.planning.recommendation import Recommendation as Recommendation
from wideproof.planning.recommendation import short as short
from wideproof.planning.width import Measured as Measured
from wideproof.planning.width import find_width as find_width
