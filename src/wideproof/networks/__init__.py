"""The seven networks of the four papers, anybody's own (`Sketch`, `Described`), and their activations.

| network         | paper              | class            |
|-----------------|--------------------|------------------|
| fully-connected | Du et al. 2019     | `FullyConnected` |
| residual        | Du et al. 2019     | `Residual`       |
| conv-residual   | Du et al. 2019     | `ConvResidual`   |
| deep-relu       | Zou et al. 2018    | `DeepReLU`       |
| elman-rnn       | Allen-Zhu et al.   | `ElmanRNN`       |
| deep-rnn        | Allen-Zhu et al.   | `DeepRNN`        |
| residual-relu   | Frei et al. 2019   | `ResidualReLU`   |
"""

from wideproof.networks import maps as maps
from wideproof.networks import starts as starts
from wideproof.networks.activations import ACTIVATIONS as ACTIVATIONS
from wideproof.networks.activations import RELU as RELU
from wideproof.networks.activations import Activation as Activation
from wideproof.networks.activations import get_activation as get_activation
from wideproof.networks.base import Gaussian as Gaussian
from wideproof.networks.base import Linearization as Linearization
from wideproof.networks.base import Network as Network
from wideproof.networks.base import Params as Params
from wideproof.networks.base import contract as contract
from wideproof.networks.base import gradient as gradient
from wideproof.networks.base import linearize as linearize
from wideproof.networks.described import Described as Described
from wideproof.networks.described import Sketch as Sketch
from wideproof.networks.families import PaperNetwork as PaperNetwork
from wideproof.networks.fully_connected import DeepReLU as DeepReLU
from wideproof.networks.fully_connected import FullyConnected as FullyConnected
from wideproof.networks.graph import Graph as Graph
from wideproof.networks.graph import Read as Read
from wideproof.networks.graph import Term as Term
from wideproof.networks.graph import graph_from_dict as graph_from_dict
from wideproof.networks.limit import LayeredLimit as LayeredLimit
from wideproof.networks.limit import LimitLayer as LimitLayer
from wideproof.networks.limit import RecurrentLimit as RecurrentLimit
from wideproof.networks.recurrent import DeepRNN as DeepRNN
from wideproof.networks.recurrent import ElmanRNN as ElmanRNN
from wideproof.networks.registry import NETWORKS as NETWORKS
from wideproof.networks.registry import build as build
from wideproof.networks.registry import from_config as from_config
from wideproof.networks.registry import to_config as to_config
from wideproof.networks.residual import ConvResidual as ConvResidual
from wideproof.networks.residual import Residual as Residual
from wideproof.networks.residual import ResidualReLU as ResidualReLU
