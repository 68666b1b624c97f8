"""The main job: from a table to a proved statement about it."""

from wideproof.proving.choosing import Choice as Choice
from wideproof.proving.choosing import choose as choose
from wideproof.proving.estimates import Estimate as Estimate
from wideproof.proving.following import Followed as Followed
from wideproof.proving.following import follow as follow
from wideproof.proving.models import as_model as as_model
from wideproof.proving.models import certify as certify
from wideproof.proving.models import certify_model as certify_model
from wideproof.proving.models import coded as coded
from wideproof.proving.predictor import Predictor as Predictor
from wideproof.proving.proof import Proof as Proof
from wideproof.proving.proof import Ratio as Ratio
from wideproof.proving.runs import prove_run as prove_run
from wideproof.proving.stages import prove as prove
