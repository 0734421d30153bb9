"""Thompson sampling pulls an arm as often as it is the best under the belief; games, refits and agents side by side."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from scipy import stats
from torch import Tensor, nn

import credo
from credo import likelihoods, nets
from credo.core.rng import Stream
from credo.core.status import Status
from credo.core.trees import Variables
from credo.decide import (
    BanditAgent,
    DivergedAgentsError,
    EpsilonGreedy,
    LinearBelief,
    MushroomGame,
    NetworkBelief,
    NeuralLinearBelief,
    Refits,
    ThompsonSampling,
    UniformChoice,
    UpperConfidence,
    WheelGame,
    play,
)
from credo.decide.bandits.network import functions_for
from credo.methods.vi import ConstantInit
from credo.posteriors import DiagonalGaussian, Draws, Posterior

ALARM = 1e-6
"""Probability that a test of frequencies fails although the code is right; with fixed seeds it does so always or
never."""
STEPS = {"epochs": 2, "learning_rate": 0.01, "batch_size": 32}


def agrees(arms: Tensor, probabilities: list[float]) -> bool:
    """Whether counts of arms are as probable as that, by a chi-square test at ALARM."""
    counts = torch.bincount(arms.flatten(), minlength=len(probabilities)).double().numpy()
    return bool(stats.chisquare(counts, counts.sum() * np.array(probabilities)).pvalue > ALARM)


def learned_arms() -> LinearBelief:
    """Three arms without a context, after a few rewards of each."""
    belief = LinearBelief(features=0, arms=3)
    arms, rewards = torch.tensor([[0, 0, 0, 1, 1, 2]]), torch.tensor([[1.0, 2.0, 1.5, 0.5, 3.0, 1.0]])
    belief.learn(torch.zeros(1, 6, 0), arms, rewards, Stream(0))
    return belief


def best_by_integral(belief: LinearBelief) -> list[float]:
    """P(arm is the best) of independent Student distributions."""
    w = belief.weights
    scale = (w.rate[0] / w.shape[0] / w.precision[0, :, 0, 0]).sqrt()
    each = [stats.t(2 * float(w.shape[0, k]), float(w.mean[0, k, 0]), float(scale[k])) for k in range(3)]
    grid = np.linspace(-60.0, 60.0, 200_001)
    found = []
    for k in range(3):
        others = np.prod([each[j].cdf(grid) for j in range(3) if j != k], axis=0)
        found.append(float(np.trapezoid(each[k].pdf(grid) * others, grid)))
    return found


def test_thompson_sampling_pulls_an_arm_as_often_as_it_is_the_best() -> None:
    belief, contexts = learned_arms(), torch.zeros(1, 20_000, 0)
    wanted = best_by_integral(belief)
    assert sum(wanted) == pytest.approx(1.0, abs=1e-5)  # tails of the Student distributions beyond the grid
    assert min(wanted) > 0.1
    wanted = [p / sum(wanted) for p in wanted]
    assert agrees(ThompsonSampling().choose(belief, contexts, Stream(1)), wanted)
    # the twins: drawn rewards in the place of drawn functions, and the mean of two draws
    one, two = (belief.reward_each(contexts, Stream(seed)) for seed in (1, 2))
    noise = (belief.weights.rate / belief.weights.shape).sqrt() * Stream(3).normal(1, 20_000, 3)
    assert not agrees((one + noise).argmax(-1), wanted)
    assert not agrees(((one + two) / 2).argmax(-1), wanted)


def network_belief(posterior: Posterior) -> NetworkBelief:
    belief = NetworkBelief(posterior.model, credo.MAP(), arms=2)
    belief.posterior, belief.posteriors = posterior, [posterior]
    return belief


MODEL = credo.Model(nn.Linear(1, 2), likelihoods.ChosenArm(likelihoods.Gaussian(1.0)))


def weights(*slopes: tuple[float, float]) -> Variables:
    w = torch.tensor(slopes).unsqueeze(2)
    return Variables({"weight": w, "bias": torch.zeros(len(slopes), 2)})


def test_with_a_network_too() -> None:
    """f_k = w_k x with independent normal w_k, so that the difference of the arms is normal."""
    mean = weights((0.5, 0.2))
    scale = {"weight": torch.tensor([[[0.3], [0.4]]]), "bias": torch.full((1, 2), 0.1)}
    belief = network_belief(DiagonalGaussian(MODEL, mean, scale))
    x = 2.0
    first = stats.norm.cdf(0.3 * x / math.sqrt((0.09 + 0.16) * x**2 + 0.02))
    contexts = torch.full((1, 4000, 1), x)
    assert agrees(ThompsonSampling().choose(belief, contexts, Stream(0)), [first, 1.0 - first])
    two = belief.reward_each(contexts, Stream(1)) + belief.reward_each(contexts, Stream(2))
    assert not agrees(two.argmax(-1), [first, 1.0 - first])


def test_a_single_decision_may_be_by_any_member_and_by_weight() -> None:
    """`posterior.draw(1)` is of the first member, always."""
    mean, nothing = weights((1.0, 0.0), (0.0, 1.0)), {"weight": torch.zeros(2, 2, 1), "bias": torch.zeros(2, 2)}
    x = torch.ones(1, 1, 1)
    mixture = network_belief(DiagonalGaussian(MODEL, mean, nothing))
    arms = [ThompsonSampling().choose(mixture, x, Stream(seed)) for seed in range(200)]
    assert agrees(torch.stack(arms), [0.5, 0.5])
    twin = [int(mixture.posteriors[0].draw(1, seed)(x[0]).argmax()) for seed in range(200)]
    assert not agrees(torch.tensor(twin), [0.5, 0.5])
    drawn = network_belief(Draws(MODEL, mean, torch.tensor([0.2, 0.8]).log()))
    arms = [ThompsonSampling().choose(drawn, x, Stream(seed)) for seed in range(200)]
    assert agrees(torch.stack(arms), [0.2, 0.8])


@pytest.mark.parametrize(
    "method",
    [
        credo.MCDropout(rate=0.2, **STEPS),
        credo.Metropolis(chains=2, warmup=5, draws=5),
        credo.SWAG(epochs=2, batch_size=None),
        credo.Ensemble(credo.BayesByBackprop(**STEPS), members=2),
    ],
    ids=lambda method: type(method).__name__,
)
def test_any_posterior_will_do(method: credo.Method) -> None:
    belief = NetworkBelief(nets.MLP(2, 5, (4,)), method, arms=5, refits=Refits(every=20, first=20))
    played = play(BanditAgent(belief), WheelGame(0.5), 30, together=10)
    assert belief.posterior is not None
    assert played.arms.shape == (1, 30)
    functions, chosen = functions_for(belief.posteriors[0], 70, Stream(0))
    assert len(chosen) == 70
    assert int(chosen.max()) < len(functions)


def test_a_refit_begins_at_the_posterior_before_with_its_scales() -> None:
    still = credo.BayesByBackprop(epochs=1, learning_rate=1e-12, initial_scale=0.05)
    belief = NetworkBelief(nets.MLP(1, 2, (3,)), still, arms=2, refits=Refits(every=5, first=5))
    contexts, arms, rewards = torch.ones(1, 5, 1), torch.tensor([[0, 1, 0, 1, 0]]), torch.ones(1, 5)
    belief.learn(contexts, arms, rewards, Stream(0))
    first = belief.posterior
    assert isinstance(first, DiagonalGaussian)
    scale = {name: t * 0.1 for name, t in first.scale.items()}
    belief.posterior = DiagonalGaussian(first.model, first.mean, scale)
    belief.learn(contexts, arms, rewards, Stream(1))
    second = belief.posterior
    assert isinstance(second, DiagonalGaussian)
    for name, before in scale.items():
        torch.testing.assert_close(second.scale[name], before, rtol=1e-4, atol=0)  # by way of rho in float32
        torch.testing.assert_close(second.mean.params[name], first.mean.params[name])
    fresh = credo.BayesByBackprop(epochs=1, learning_rate=1e-12, initial_rho=ConstantInit(0.0))
    y = torch.stack([rewards[0], arms[0].float()], 1)
    told = credo.fit(belief.model, (contexts[0], y), fresh, start=second, progress=False)
    assert isinstance(told, DiagonalGaussian)
    assert float(next(iter(told.scale.values())).min()) == pytest.approx(math.log(2.0), rel=1e-4)  # softplus(0)


def test_refits_become_rarer_and_take_every_round_as_often() -> None:
    refits, last, times = Refits(every=50, growth=0.1, rows=100), 0, []
    for n in range(1, 5000):
        if refits.due(n, last):
            last = n
            times.append(n)
    assert times[:6] == [4, 8, 16, 32, 64, 114]
    assert times[-1] - times[-2] > 400
    assert torch.bincount(refits.chosen(30, Stream(0))).tolist().count(4) == 10
    assert len(refits.chosen(30, Stream(0))) == len(refits.chosen(3000, Stream(0))) == 100
    assert int(torch.bincount(refits.chosen(3000, Stream(0))).max()) == 1


def test_a_refit_from_some_rows_counts_as_many_as_there_are() -> None:
    rng = Stream(0)
    contexts, arms = rng.normal(1, 600, 1), (torch.arange(600) % 2).unsqueeze(0)
    model = credo.Model(nn.Linear(1, 2), likelihoods.Gaussian(1.0))
    method = credo.MAP(epochs=1, batch_size=30)
    for rows, size in ((None, 600), (90, 600)):
        belief = NetworkBelief(model, method, arms=2, refits=Refits(every=600, first=600, rows=rows))
        belief.learn(contexts, arms, contexts[..., 0], rng)
        assert belief.posterior is not None
        assert belief.posterior.record.size == pytest.approx(size)


def test_a_network_that_learned_doubts_as_much_as_the_exact_posterior() -> None:
    """One weight for each context and arm: independent normals, of variance 1 / (1 + n / noise^2), are exact."""
    rng, noise = Stream(5), 2.0
    kind = torch.multinomial(torch.tensor([0.7, 0.2, 0.1]), 200, True, generator=rng.child("kind").generator())
    arms = torch.arange(200) % 2
    rewards = arms - 0.5 + noise * rng.child("noise").normal(200)
    model = credo.Model(nn.Linear(3, 2, bias=False), likelihoods.Gaussian(noise), credo.priors.Normal(1.0))
    method = credo.BayesByBackprop(epochs=60, learning_rate=0.02, batch_size=100, samples=4)
    belief = NetworkBelief(model, method, arms=2, refits=Refits(every=200, first=200, rows=400))  # every round twice
    belief.learn(torch.eye(3)[kind].unsqueeze(0), arms.unsqueeze(0), rewards.double().unsqueeze(0), rng)
    drawn = belief.reward_each(torch.eye(3).repeat_interleave(2000, 0).unsqueeze(0), rng).view(3, 2000, 2)
    count = torch.stack([torch.bincount(kind[arms == arm], minlength=3) for arm in (0, 1)], 1)

    def apart(rounds: Tensor) -> float:
        return float((drawn.std(1) / (1.0 + rounds / noise**2).rsqrt()).log().mean())

    assert abs(apart(count)) < 0.08  # the noise of the last steps of Adam, averaged over six weights
    assert abs(apart(2 * count)) > 0.2  # the twin: rounds that come twice count twice


@pytest.mark.parametrize("members", [1, 2])
def test_agents_side_by_side_share_nothing(members: int) -> None:
    method = credo.DeepEnsemble(members=members, **STEPS)

    def played(doctored: bool) -> tuple[Tensor, Tensor]:
        belief = NetworkBelief(nets.MLP(2, 2, (4,)), method, arms=2, refits=Refits(every=10, rows=40), agents=2)
        agent, rng = BanditAgent(NeuralLinearBelief(belief) if members == 1 else belief), Stream(5)
        pulled = []
        for t in range(6):
            contexts = rng.child(t).normal(2, 8, 2)
            arms = agent.act(contexts)
            rewards = contexts[..., 0] * (2 * arms - 1)
            rewards[1] = 7.0 if doctored else rewards[1]
            agent.learn(contexts, arms, rewards)
            pulled.append(arms)
        return torch.cat(pulled, 1).unbind(0)

    (mine, other), (mine_again, _) = played(False), played(True)
    assert torch.equal(mine, mine_again)
    assert not torch.equal(mine, other)


def test_agents_learn_the_wheel() -> None:
    """Where half of the disk pays much, a few hundred rounds show which arm is right in which quadrant."""
    game, method = WheelGame(0.5), credo.MAP(epochs=1, learning_rate=0.01, batch_size=64)
    network = NetworkBelief(
        credo.Model(nets.MLP(2, 5, (30, 30)), likelihoods.Gaussian(1.0)), method, 5, Refits(50, 0.3, 3200), agents=2
    )
    neural = play(BanditAgent(NeuralLinearBelief(network)), game, 2000, together=50).relative_regret
    linear = play(BanditAgent(LinearBelief(2, 5, agents=2)), game, 2000, together=50).relative_regret
    assert float(neural.max()) < 0.25
    assert float(linear.max()) < 0.25


def test_policies_that_do_not_draw() -> None:
    belief, contexts = learned_arms(), torch.zeros(1, 6000, 0)
    mean, stddev = belief.moments(contexts[:, :1], Stream(0))
    best = int(mean.argmax())
    assert set(EpsilonGreedy(0.0).choose(belief, contexts, Stream(0)).flatten().tolist()) == {best}
    explored = EpsilonGreedy(0.3).choose(belief, contexts, Stream(0))
    assert agrees(explored, [0.8 if k == best else 0.1 for k in range(3)])
    for width, arm in ((0.0, best), (5.0, 2)):  # of the third arm there is one reward, and the most doubt
        assert int((mean + width * stddev).argmax()) == arm != 0
        assert int(UpperConfidence(width).choose(belief, contexts[:, :1], Stream(0))) == arm
    assert agrees(UniformChoice().choose(belief, contexts, Stream(0)), [1 / 3] * 3)


def test_the_mushroom_game_pays_what_it_says() -> None:
    x, poisonous = torch.eye(4), torch.tensor([0, 1, 0, 1])
    rounds = MushroomGame(x, poisonous).rounds(8000, Stream(0))
    bad = rounds.contexts.argmax(1) % 2 == 1
    assert set(rounds.rewards[~bad, 1].tolist()) == {5.0}
    assert agrees((rounds.rewards[bad, 1] > 0).long(), [0.5, 0.5])
    assert set(rounds.rewards[bad, 1].tolist()) == {5.0, -35.0}
    assert set(rounds.expected[bad, 1].tolist()) == {-15.0}
    assert not rounds.rewards[:, 0].any()


def test_the_wheel_pays_what_it_says() -> None:
    rounds = WheelGame(0.7).rounds(20_000, Stream(0))
    radius = rounds.contexts.norm(dim=1)
    assert float(radius.max()) <= 1.0
    assert agrees((radius > 0.7).long(), [0.49, 0.51])
    assert torch.equal((rounds.expected == 50.0).sum(1), (radius > 0.7).long())
    off = rounds.rewards - rounds.expected
    assert float(off[rounds.expected < 50].std()) == pytest.approx(0.05, rel=0.02)  # 89,000 draws
    assert float(off[rounds.expected == 50].std()) == pytest.approx(0.01, rel=0.05)  # 10,000 draws
    one = rounds.contexts[(rounds.expected[:, 0] == 50)]
    assert bool((one > 0).all())


def test_regret_of_those_who_know_and_of_those_who_do_not_care() -> None:
    game = WheelGame(0.5)
    uniform = play(BanditAgent(LinearBelief(2, 5, agents=3), UniformChoice()), game, 4000, together=50)
    assert float(uniform.relative_regret.mean()) == pytest.approx(1.0, abs=0.03)  # 12,000 rounds
    assert uniform.cumulative_regret.shape == (3, 4000)
    knows = play(BanditAgent(LinearBelief(0, 2), EpsilonGreedy(0.0)), MushroomsAllEdible(), 400)
    assert float(knows.regret[:, 4:].sum()) == 0.0


class MushroomsAllEdible(MushroomGame):  # type: ignore[misc]  # a game of someone's own
    def __init__(self) -> None:
        super().__init__(torch.zeros(3, 0), torch.zeros(3))


def test_the_same_seed_plays_the_same_game() -> None:
    def arms(seed: int) -> Tensor:
        return play(BanditAgent(LinearBelief(2, 5), seed=seed), WheelGame(0.5), 200, seed=1).arms

    assert torch.equal(arms(0), arms(0))
    assert not torch.equal(arms(0), arms(1))


@pytest.mark.parametrize(
    ("contexts", "arms", "rewards", "sentence"),
    [
        (torch.zeros(2, 3), [0, 1], [1.0, math.nan], "rewards holds NaN or infinite numbers"),
        (torch.zeros(2, 3), [0, 1], [1.0, math.inf], "session is as it was"),
        (torch.zeros(2, 3), [0, 2], [1.0, 1.0], "whole numbers from 0 to 1"),
        (torch.zeros(2, 3), [0, 0.5], [1.0, 1.0], "whole numbers from 0 to 1"),
        (torch.zeros(2, 3), [0], [1.0], "one for each of them"),
        (torch.zeros(2, 3), [0, 1], [[1.0], [1.0]], "one for each of them"),
        (torch.zeros(2, 4), [0, 1], [1.0, 1.0], "4 feature"),
        (torch.full((2, 3), math.nan), [0, 1], [1.0, 1.0], "contexts holds NaN"),
        (torch.zeros(2, 2, 3), [[0, 1]] * 2, [[1.0, 1.0]] * 2, "A agents side by side"),
        (torch.zeros(0, 3), [], [], "contexts has shape"),
    ],
)
def test_what_cannot_be_learned_is_refused_and_the_session_goes_on(
    contexts: Tensor, arms: object, rewards: object, sentence: str
) -> None:
    agents = [BanditAgent(LinearBelief(3, 2)) for _ in range(2)]
    x = Stream(0).normal(10, 3)
    for agent in agents:
        agent.learn(x, torch.arange(10) % 2, x[:, 0])
    with pytest.raises(ValueError, match=sentence):
        agents[0].learn(contexts, arms, rewards)
    assert torch.equal(agents[0].act(x), agents[1].act(x))
    assert agents[0].rounds == 10


def test_misuse_is_a_sentence() -> None:
    with pytest.raises(ValueError, match="rewards of 3 arm"):
        play(BanditAgent(NetworkBelief(nets.MLP(2, 3, (4,)), credo.MAP(), arms=5)), WheelGame(), 10)
    with pytest.raises(ValueError, match="the game has 5 arms, and the agent 2"):
        play(BanditAgent(LinearBelief(2, 2)), WheelGame(), 10)
    with pytest.raises(ValueError, match="no refit yet"):
        ThompsonSampling().choose(NetworkBelief(nets.MLP(2, 2), credo.MAP(), arms=2), torch.zeros(1, 1, 2), Stream(0))
    with pytest.raises(ValueError, match="epsilon"):
        EpsilonGreedy(1.5)
    with pytest.raises(ValueError, match="delta"):
        WheelGame(1.0)
    with pytest.raises(ValueError, match="chains"):
        NetworkBelief(nets.MLP(2, 2), credo.HMC(), arms=2, agents=2)
    with pytest.raises(ValueError, match="poisonous"):
        MushroomGame(torch.zeros(3, 2), torch.zeros(4))
    with pytest.raises(TypeError, match="belief must be"):
        BanditAgent(nets.MLP(2, 2))  # type: ignore[arg-type]


@pytest.mark.filterwarnings("ignore::credo.CredoWarning")
@pytest.mark.parametrize("agents", [1, 2])
def test_a_refit_that_diverges_is_said_and_changes_nothing_that_is_believed(agents: int) -> None:
    network = NetworkBelief(nets.MLP(1, 2, (3,)), credo.MAP(**STEPS), 2, Refits(every=10, first=10), agents=agents)
    agent, rng = BanditAgent(NeuralLinearBelief(network)), Stream(0)
    x = rng.normal(agents, 10, 1)
    arms = torch.arange(10).expand(agents, 10) % 2
    agent.learn(x, arms, x[..., 0])
    before, seen = network.posterior, float(agent.belief.last.weights.shape.sum())  # type: ignore[attr-defined]
    with pytest.raises(DivergedAgentsError, match="order one"):
        agent.learn(x, arms, 1e30 * x[..., 0])
    assert network.posterior is before
    assert len(network.history) == agent.rounds == 20
    assert float(agent.belief.last.weights.shape.sum()) == seen + 5.0 * agents  # type: ignore[attr-defined]


def test_ctrl_c_in_a_refit_ends_the_game(monkeypatch: pytest.MonkeyPatch) -> None:
    from credo.decide.bandits import network

    def interrupted(*arguments: object, **options: object) -> Posterior:
        found = credo.fit(*arguments, **options)  # type: ignore[arg-type]
        return replace(found, record=replace(found.record, status=Status.INTERRUPTED))

    monkeypatch.setattr(network, "fit", interrupted)
    belief = NetworkBelief(nets.MLP(2, 5, (3,)), credo.MAP(**STEPS), arms=5)
    with pytest.raises(KeyboardInterrupt):
        play(BanditAgent(belief), WheelGame(0.5), 50)
    assert belief.ready


@pytest.mark.parametrize("dtype", [torch.float16, torch.float64, torch.int64])
def test_contexts_of_any_precision_leave_rewards_their_digits(dtype: torch.dtype) -> None:
    agent = BanditAgent(LinearBelief(1, 2, precision=1e-9))
    x = torch.tensor([[1], [2], [3], [4]], dtype=dtype)
    agent.learn(x, [0, 0, 1, 1], torch.tensor([100_001.0, 200_002.0, -3.0, -4.0], dtype=torch.float64))
    mean, _ = agent.belief.moments(x.unsqueeze(0).double(), Stream(0))
    assert mean[0, :, 0].tolist() == pytest.approx([100_001.0, 200_002.0, 300_003.0, 400_004.0], rel=1e-7)  # the prior
    network = NetworkBelief(nets.MLP(1, 2, (3,)), credo.MAP(**STEPS), arms=2)
    BanditAgent(network).learn(x, [0, 0, 1, 1], [1.0, 2.0, 3.0, 4.0])
    assert network.ready


def test_a_view_and_many_contexts_at_once() -> None:
    agents = [BanditAgent(LinearBelief(2, 3)) for _ in range(2)]
    x = Stream(0).normal(4, 3000).T[:, ::2]
    for agent, contexts in zip(agents, (x, x.contiguous()), strict=True):
        agent.learn(contexts, torch.arange(3000) % 3, contexts[:, 0])
    assert torch.equal(agents[0].act(x), agents[1].act(x.contiguous()))
