"""Data: load or generate it, prepare it as a theorem asks, and audit it before training.

    data = prepare(load("digits", classes=(0, 1), limit=100), "whiten,constant(0.5)")
    print(audit(data))

Nothing here imports JAX; all numbers are float64.
"""

from wideproof.data.audit import Audit as Audit
from wideproof.data.audit import audit as audit
from wideproof.data.bundled import BUNDLED as BUNDLED
from wideproof.data.conflicts import Conflicts as Conflicts
from wideproof.data.conflicts import conflicts as conflicts
from wideproof.data.conflicts import half_square as half_square
from wideproof.data.dataset import AnyDataset as AnyDataset
from wideproof.data.dataset import Dataset as Dataset
from wideproof.data.dataset import ImageDataset as ImageDataset
from wideproof.data.dataset import SequenceDataset as SequenceDataset
from wideproof.data.dataset import Task as Task
from wideproof.data.dates import date_column as date_column
from wideproof.data.dates import last_rows as last_rows
from wideproof.data.encoding import Encoding as Encoding
from wideproof.data.encoding import encode as encode
from wideproof.data.encoding import new_rows as new_rows
from wideproof.data.encoding import unseen as unseen
from wideproof.data.generators import GENERATORS as GENERATORS
from wideproof.data.generators import linear_margin as linear_margin
from wideproof.data.generators import sequences as sequences
from wideproof.data.generators import sphere as sphere
from wideproof.data.generators import two_classes as two_classes
from wideproof.data.generators import xor as xor
from wideproof.data.geometry import Pair as Pair
from wideproof.data.geometry import PairGeometry as PairGeometry
from wideproof.data.geometry import groups_of_equal_rows as groups_of_equal_rows
from wideproof.data.geometry import pairs as pairs
from wideproof.data.labels import KINDS as KINDS
from wideproof.data.labels import Kind as Kind
from wideproof.data.labels import from_labels as from_labels
from wideproof.data.loaders import first_examples as first_examples
from wideproof.data.loaders import load as load
from wideproof.data.margin import Margin as Margin
from wideproof.data.margin import margin as margin
from wideproof.data.packing import pack as pack
from wideproof.data.packing import unpack as unpack
from wideproof.data.preparation import PAPERS_NEED as PAPERS_NEED
from wideproof.data.preparation import STEPS as STEPS
from wideproof.data.preparation import apply as apply
from wideproof.data.preparation import flattens as flattens
from wideproof.data.preparation import merges as merges
from wideproof.data.preparation import parse_steps as parse_steps
from wideproof.data.preparation import prepare as prepare
from wideproof.data.preparation import restore_targets as restore_targets
from wideproof.data.repeats import Distinct as Distinct
from wideproof.data.repeats import distinct as distinct
from wideproof.data.repeats import equal_rows as equal_rows
from wideproof.data.step import Step as Step
from wideproof.data.tables import read_text as read_text
from wideproof.data.verdicts import Verdict as Verdict
