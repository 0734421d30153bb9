"""What to do with a posterior: decisions and economies."""

from credo.decide.abstain import AbstainPolicy, CostMatrix, Costs, Decisions, Misses, Mistakes, Promise
from credo.decide.acquisition import (
    Acquisition,
    acquire,
    acquisition_scores,
    batch_bald,
    batch_information,
    information,
)
from credo.decide.active import ActiveLearner, Questions, Restart, simulate
from credo.decide.bandits.agent import BanditAgent
from credo.decide.bandits.beliefs import Belief, Refits
from credo.decide.bandits.games import BanditGame, MushroomGame, Played, Rounds, WheelGame, play
from credo.decide.bandits.linear import LinearBelief, NeuralLinearBelief
from credo.decide.bandits.network import DivergedAgentsError, NetworkBelief
from credo.decide.bandits.policies import EpsilonGreedy, Policy, ThompsonSampling, UniformChoice, UpperConfidence
from credo.decide.certificates import CertifiedRisk, certified_risks, smallest_risk
from credo.decide.compression import Compression, LayerCompression, compression, log_alpha, prune_noise
from credo.decide.guarantee import (
    FixedSequence,
    GuaranteedRisk,
    SelectionCurve,
    ThresholdRule,
    rows_needed,
    rows_that_would_do,
)
from credo.decide.pruning import PruningCurve, pruning_curve, read_sparse, write_sparse
from credo.decide.session import Round
from credo.decide.value import value_of_features, value_of_rows

__all__ = [
    "AbstainPolicy",
    "Acquisition",
    "ActiveLearner",
    "BanditAgent",
    "BanditGame",
    "Belief",
    "CertifiedRisk",
    "Compression",
    "CostMatrix",
    "Costs",
    "Decisions",
    "DivergedAgentsError",
    "EpsilonGreedy",
    "FixedSequence",
    "GuaranteedRisk",
    "LayerCompression",
    "LinearBelief",
    "Misses",
    "Mistakes",
    "MushroomGame",
    "NetworkBelief",
    "NeuralLinearBelief",
    "Played",
    "Policy",
    "Promise",
    "PruningCurve",
    "Questions",
    "Refits",
    "Restart",
    "Round",
    "Rounds",
    "SelectionCurve",
    "ThompsonSampling",
    "ThresholdRule",
    "UniformChoice",
    "UpperConfidence",
    "WheelGame",
    "acquire",
    "acquisition_scores",
    "batch_bald",
    "batch_information",
    "certified_risks",
    "compression",
    "information",
    "log_alpha",
    "play",
    "prune_noise",
    "pruning_curve",
    "read_sparse",
    "rows_needed",
    "rows_that_would_do",
    "simulate",
    "smallest_risk",
    "value_of_features",
    "value_of_rows",
    "write_sparse",
]
