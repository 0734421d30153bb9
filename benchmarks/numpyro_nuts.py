"""NumPyro's NUTS with vectorized chains, on the data that mcmc.py hands over; for an environment that has NumPyro."""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path

FOLDER, NOISE = Path(sys.argv[1]), float(sys.argv[2])
THREADS, WARMUP, DRAWS, CHAINS = map(int, sys.argv[3:])
if THREADS == 1:
    os.environ["XLA_FLAGS"] = "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1"

import jax  # noqa: E402
import numpy as np  # noqa: E402
import numpyro  # noqa: E402
import numpyro.distributions as dist  # noqa: E402
from jax import numpy as jnp  # noqa: E402
from numpyro.infer import MCMC, NUTS  # noqa: E402

DATA = np.load(FOLDER / "data.npz")


def network(w1, b1, w2, b2, x):
    return jnp.tanh(x @ w1 + b1) @ w2 + b2


def model(x, y):
    w1 = numpyro.sample("w1", dist.Normal(0, 13**-0.5).expand([13, 50]).to_event(2))
    b1 = numpyro.sample("b1", dist.Normal(0, 1).expand([50]).to_event(1))
    w2 = numpyro.sample("w2", dist.Normal(0, 50**-0.5).expand([50]).to_event(1))
    b2 = numpyro.sample("b2", dist.Normal(0, 1))
    numpyro.sample("y", dist.Normal(network(w1, b1, w2, b2, x), NOISE), obs=y)


def run(warmup: int, draws: int, seed: int):
    sampler = MCMC(
        NUTS(model),
        num_warmup=warmup,
        num_samples=draws,
        num_chains=CHAINS,
        chain_method="vectorized",
        progress_bar=False,
    )
    begin, cpu = time.perf_counter(), time.process_time()
    sampler.run(jax.random.PRNGKey(seed), DATA["x"], DATA["y"], extra_fields=("num_steps",))
    jax.block_until_ready(sampler.get_samples())
    return sampler, time.perf_counter() - begin, time.process_time() - cpu


def main() -> None:
    _, compilation, compiling = run(1, 1, 1)
    sampler, seconds, cpu = run(WARMUP, DRAWS, 0)
    s = sampler.get_samples(group_by_chain=True)
    each = jax.vmap(jax.vmap(lambda w1, b1, w2, b2: network(w1, b1, w2, b2, DATA["x_test"])))
    np.save(FOLDER / "functions.npy", np.asarray(each(s["w1"], s["b1"], s["w2"], s["b2"])))
    steps = float(np.asarray(sampler.get_extra_fields()["num_steps"]).mean())
    times = {"seconds": seconds - compilation, "cpu": cpu - compiling, "compilation": compilation, "steps": steps}
    (FOLDER / "times.json").write_text(json.dumps(times))


main()
