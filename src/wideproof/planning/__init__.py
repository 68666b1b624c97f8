"""What to train and prove something about, before training anything: candidates, and what their Gram matrices say."""

from wideproof.planning.candidates import Candidate as Candidate
from wideproof.planning.candidates import kind_of as kind_of
from wideproof.planning.choosing import Choice as Choice
from wideproof.planning.choosing import choose as choose
from wideproof.planning.choosing import scaled as scaled
from wideproof.planning.estimates import Estimate as Estimate
from wideproof.planning.estimates import gap as gap
from wideproof.planning.estimates import score as score
from wideproof.planning.gram_study import GramSettings as GramSettings
from wideproof.planning.gram_study import GramStudy as GramStudy
from wideproof.planning.gram_study import study_gram as study_gram
from wideproof.planning.plan import Plan as Plan
from wideproof.planning.plan import Row as Row
from wideproof.planning.plan import plan as plan
from wideproof.planning.raising import COMFORTABLE as COMFORTABLE
from wideproof.planning.raising import raised as raised
from wideproof.planning.scales import BUDGET as BUDGET
from wideproof.planning.scales import Scale as Scale
