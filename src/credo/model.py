"""The statistical model, and the density that methods explore."""

from __future__ import annotations

from dataclasses import dataclass, replace
from types import NoneType

from torch import Tensor

from credo.core.checks import check_kind
from credo.core.rng import Stream
from credo.core.trees import Layout, Params, Variables
from credo.likelihoods import Bernoulli, Categorical, LearnedGaussian, Likelihood
from credo.nets.dropout import draw_masks
from credo.nets.network import Net, Network
from credo.nets.plan import Plan
from credo.priors import Normal, Prior

OWN = "likelihood."
"""Prefix of the likelihood's learned parameters among `Params`."""


class Model:
    """Network, likelihood and prior: the description of the problem, with nothing fitted.

    Args:
        net: a module from a tensor to a tensor, or a function without arguments that makes one. It is copied.
        likelihood: None chooses by the targets: class numbers give `Categorical`, other numbers `LearnedGaussian`.
        prior: of the network's weights; None is `Normal(scale=3.0, fan_in=True)`, which is weak for standardised data
            whatever the width of the net. (At scale 1 the most probable weights of a small data set are all zero.)

    Example:
        >>> from credo import likelihoods, nets
        >>> Model(nets.MLP(1, 1), likelihoods.Gaussian(scale=0.1)).prior
        Normal(scale=3.0, fan_in=True)
    """

    def __init__(self, net: Net | Network, likelihood: Likelihood | None = None, prior: Prior | None = None) -> None:
        check_kind("likelihood", likelihood, "likelihoods.Gaussian()", Likelihood, NoneType)
        check_kind("prior", prior, "priors.Normal()", Prior, NoneType)
        self.network = net if isinstance(net, Network) else Network(net)
        self.given_likelihood = likelihood
        self.prior = prior or Normal(scale=3.0, fan_in=True)

    @property
    def likelihood(self) -> Likelihood:
        if self.given_likelihood is None:
            raise ValueError("the model has no likelihood yet: give Model(net, likelihood=...), or let fit choose by y")
        return self.given_likelihood

    def __repr__(self) -> str:
        return f"Model({type(self.network.module).__name__}, {self.given_likelihood}, {self.prior})"

    def with_network(self, network: Network) -> Model:
        return Model(network, self.given_likelihood, self.prior)

    def with_likelihood_for(self, y: Tensor, outputs: int) -> tuple[Model, str | None]:
        """The model with its likelihood chosen, and a sentence that says what was chosen, if anything was."""
        if self.given_likelihood is not None:
            return self, None
        chosen: Likelihood
        if y.is_floating_point():
            chosen, why = LearnedGaussian(), "y holds real numbers"
        elif outputs > 1:
            chosen, why = Categorical(), f"y holds whole numbers and the network has {outputs} outputs"
        else:
            chosen, why = Bernoulli(), "y holds whole numbers and the network has one output"
        model = Model(self.network, chosen, self.prior)
        return model, f"likelihood: {chosen}, because {why}"

    def outputs(self, variables: Variables, x: Tensor) -> int:
        """E, the number of outputs per example."""
        shape = self.network.trace(variables, x).output
        if len(shape) != 1:
            raise ValueError(
                f"the network returns outputs of shape (B, {', '.join(map(str, shape))}): it must be (B, outputs); "
                "end it with nn.Flatten() or a linear layer"
            )
        return shape[0]

    def complete(self, variables: Variables, outputs: int) -> Variables:
        """The network's variables together with first values of the likelihood's own parameters."""
        first = next(iter(variables.params.values()))
        own = {
            OWN + name: value.to(first).expand(len(first), *value.shape).clone()
            for name, value in self.likelihood.parameters(outputs).items()
        }
        return Variables({**variables.params, **own}, variables.buffers)


def likelihood_params(params: Params) -> Params:
    """The likelihood's own parameters, by their short names."""
    return {name.removeprefix(OWN): value for name, value in params.items() if name.startswith(OWN)}


@dataclass(frozen=True)
class Batch:
    """Some examples.

    Attributes:
        x: inputs (B, ...), or (M, B, ...) where each member has its own.
        y: targets (B, D) or (B,), likewise with a leading M.
        own: whether each member has its own examples.
    """

    x: Tensor
    y: Tensor
    own: bool = False

    @property
    def examples(self) -> int:
        """B."""
        return int(self.x.shape[1 if self.own else 0])


@dataclass(frozen=True)
class Target:
    """A model bound to a data size and a temperature: the log density that every method explores.

    All densities are on the scale of the full data: a batch of B out of N examples counts N / B fold, so its
    log density has the full sum as its expectation.

    Attributes:
        model: with its likelihood chosen.
        size: N, the number of training examples.
        temperature: T; the posterior is tempered to p(w | data)^(1/T).
        plan: how members are computed.
    """

    model: Model
    size: int
    temperature: float = 1.0
    plan: Plan = Plan.TOGETHER

    @property
    def layout(self) -> Layout:
        return self.model.network.layout

    def log_likelihood(self, variables: Variables, batch: Batch) -> Tensor:
        """log p(y_b | x_b, w_m) of each example under each member, (M, B), by the deterministic network."""
        outputs = self.model.network.evaluate(variables, batch.x, self.plan, own_x=batch.own)
        return self._log_prob(outputs, variables.params, batch)

    def training_log_likelihood(self, variables: Variables, batch: Batch, noise: Stream) -> Tensor:
        """The same, (M, B), with the network in training: dropout by `noise`, batch norm by the batch.

        Buffers of batch norm are updated in place.
        """
        network = self.model.network
        traced = network.trace(variables, batch.x[0] if batch.own else batch.x)
        masks = draw_masks(
            traced.sites, noise.child("dropout"), variables.members, batch.examples, network.dtype, variables.device
        )
        outputs = network.train(variables, batch.x, masks, self.plan, own_x=batch.own)
        return self._log_prob(outputs, variables.params, batch)

    def _log_prob(self, outputs: Tensor, params: Params, batch: Batch) -> Tensor:
        return self.model.likelihood.log_prob(outputs, batch.y, likelihood_params(params))

    def log_prior(self, params: Params) -> Tensor:
        """log p(w) of each member, (M,): the prior of the weights and that of the likelihood's own parameters."""
        weights = {name: params[name] for name in self.layout}
        own = self.model.likelihood.log_prior(likelihood_params(params))
        return self.model.prior.log_prob(weights, self.layout) + own

    def log_joint(self, variables: Variables, batch: Batch) -> Tensor:
        """(N / B sum_b log p(y_b | x_b, w) + log p(w)) / T of each member, (M,)."""
        return self.temper(self.full(self.log_likelihood(variables, batch)) + self.log_prior(variables.params))

    def full(self, log_likelihood: Tensor) -> Tensor:
        """A batch's log likelihoods (M, B) on the scale of all the data, (M,)."""
        return log_likelihood.mean(1) * self.size

    def temper(self, log_density: Tensor) -> Tensor:
        return log_density if self.temperature == 1.0 else log_density / self.temperature

    def with_plan(self, plan: Plan) -> Target:
        return replace(self, plan=plan)
