"""What to do with a posterior: decisions and economies."""

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
from credo.decide.compression import Compression, LayerCompression, compression, log_alpha, prune_noise
from credo.decide.pruning import PruningCurve, pruning_curve, read_sparse, write_sparse
from credo.decide.session import Round

__all__ = [
    "Acquisition",
    "ActiveLearner",
    "BanditAgent",
    "BanditGame",
    "Belief",
    "Compression",
    "DivergedAgentsError",
    "EpsilonGreedy",
    "LayerCompression",
    "LinearBelief",
    "MushroomGame",
    "NetworkBelief",
    "NeuralLinearBelief",
    "Played",
    "Policy",
    "PruningCurve",
    "Questions",
    "Refits",
    "Restart",
    "Round",
    "Rounds",
    "ThompsonSampling",
    "UniformChoice",
    "UpperConfidence",
    "WheelGame",
    "acquire",
    "acquisition_scores",
    "batch_bald",
    "batch_information",
    "compression",
    "information",
    "log_alpha",
    "play",
    "prune_noise",
    "pruning_curve",
    "read_sparse",
    "simulate",
    "write_sparse",
]
