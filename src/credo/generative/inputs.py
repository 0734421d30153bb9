"""What people give an autoencoder: examples in memory, and encoders and decoders that fit them or not."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator
from typing import Any

import torch
from torch import Tensor
from torch.utils.data import DataLoader, Dataset, TensorDataset

from credo.core.arrays import check_finite, tensor
from credo.likelihoods import Bernoulli, BinarizedBernoulli, ContinuousBernoulli, GrayCrossEntropy, Likelihood
from credo.nets.autoencoder import Autoencoder

UNIT_INTERVAL = (Bernoulli, BinarizedBernoulli, ContinuousBernoulli, GrayCrossEntropy)


def values_of(x: Any, name: str, likelihood: Likelihood | None = None) -> Tensor:
    """Examples (N, ...) as real numbers, or a sentence that says what is wrong with them.

    Torch's float64 stays what it is; arrays and lists, which are float64 by habit, are read as torch's default.

    Args:
        x: a tensor, an array or a list; a Dataset or DataLoader, which is read into memory.
        name: of the argument.
        likelihood: that was given.
    """
    given = _together(x, name)
    values = tensor(given, name)
    if values.ndim < 2 or values.numel() == 0:
        raise ValueError(f"{name} has shape {tuple(values.shape)}: it needs one row per example, such as (N, 28, 28)")
    if values.is_complex():
        raise TypeError(
            f"{name} holds complex numbers, and likelihoods are of real ones: give real and imaginary parts"
        )
    if not values.is_floating_point():
        _check_whole_numbers(values, name, likelihood)
    check_finite(values, name)
    precise = isinstance(given, Tensor) and values.dtype is torch.float64
    return values if precise else values.to(torch.get_default_dtype())


def _check_whole_numbers(values: Tensor, name: str, likelihood: Likelihood | None) -> None:
    """Refuse bytes, which are no values between 0 and 1, and numbers whose likelihood nobody has said."""
    low, high = int(values.min()), int(values.max())
    inside = low >= 0 and high <= 1
    if inside or not (likelihood is None or isinstance(likelihood, UNIT_INTERVAL)):
        return
    if low >= 0 and high <= 255:
        raise ValueError(f"{name} holds whole numbers up to {high}: divide bytes by 255, as in x / 255")
    raise ValueError(
        f"{name} holds whole numbers from {low} to {high}: give them as floats if they are measured, or a likelihood "
        "of counts, such as VAE(likelihood=likelihoods.Poisson())"
    )


def _together(x: Any, name: str) -> Any:
    """Examples one by one, or in batches, as one tensor."""
    if isinstance(x, TensorDataset):
        return x.tensors[0]
    if isinstance(x, DataLoader):
        return torch.cat([_image(item, name) for item in x])
    if isinstance(x, Dataset):
        return _stacked([_image(item, name) for item in _items(x, name)], name)
    return _stacked(x, name) if isinstance(x, list | tuple) else x


def _items(x: Dataset[Any], name: str) -> Iterator[Any]:
    if not hasattr(x, "__len__"):
        raise TypeError(f"{name} is a Dataset without a length: give a DataLoader of it, which knows where it ends")
    return (x[i] for i in range(len(x)))


def _image(item: Any, name: str) -> Tensor:
    """The first part of an item (image, label), or all of it."""
    found = item[0] if isinstance(item, list | tuple) else item
    if isinstance(found, dict):
        keys = ", ".join(repr(key) for key in found)
        raise TypeError(f"{name} gives dicts of {keys}: give the images alone, as in [item['image'] for item in data]")
    return tensor(found, name)


def _stacked(x: Collection[Any], name: str) -> Any:
    """Examples of one shape as one tensor; what is no list of them, as it came."""
    each = [tensor(item, name) for item in x if hasattr(item, "shape")]
    if not each or len(each) < len(x):
        return x
    shapes = Counter(tuple(item.shape) for item in each)
    if len(shapes) > 1:
        usual = shapes.most_common(1)[0][0]
        place = next(i for i, item in enumerate(each) if tuple(item.shape) != usual)
        raise ValueError(
            f"{name} has examples of different sizes: most are {usual}, and number {place} is "
            f"{tuple(each[place].shape)}: bring all to one size first"
        )
    return torch.stack(each)


def check_shape(values: Tensor, shape: tuple[int, ...], name: str) -> None:
    """Refuse examples that are not of the model's shape."""
    if tuple(values.shape[1:]) != shape:
        raise ValueError(f"{name} has examples of shape {tuple(values.shape[1:])}, and the model is for {shape}")


def check_support(values: Tensor, likelihood: Likelihood, outputs: int, name: str) -> Tensor:
    """The examples as targets (N, D), or a sentence where the likelihood does not take such values."""
    try:
        return likelihood.check_targets(values.flatten(1), outputs)
    except ValueError as error:
        gray = isinstance(likelihood, Bernoulli) and bool(((values >= 0) & (values <= 1)).all())
        advice = (
            "; for gray values take ContinuousBernoulli(), their density, or BinarizedBernoulli(), which draws 0 or 1"
        )
        raise ValueError(
            f"{name} does not suit VAE(likelihood=likelihoods.{type(likelihood).__name__}(...)), whose targets y are "
            f"the values of {name}: {error}{advice if gray else ''}"
        ) from None


@torch.no_grad()
def check_sizes(net: Autoencoder, x: Tensor, per_value: int) -> None:
    """Refuse an encoder or decoder whose outputs do not fit."""
    wanted = per_value * x[0].numel()
    parameter = next(iter(net.parameters()))
    x = x[:2].to(parameter.device, parameter.dtype, copy=True)
    zeros = torch.zeros(2, net.latent, dtype=parameter.dtype, device=parameter.device)
    encoding = _tried("encoder", net.encoder, x, f"x (B, {', '.join(map(str, x.shape[1:]))})")
    if encoding != 2 * net.latent:
        raise ValueError(
            f"the encoder gives {encoding} numbers, and latent={net.latent} needs {2 * net.latent}: a mean and a scale "
            "for each dimension"
        )
    found = _tried("decoder", net.decoder, zeros, f"z (B, {net.latent})")
    if found != wanted:
        values = f"x of shape {tuple(x.shape[1:])}"
        each = "" if per_value == 1 else f", {per_value} for each value"
        raise ValueError(f"the decoder gives {found} numbers, and {values} needs {wanted}{each}")


def _tried(name: str, part: torch.nn.Module, given: Tensor, what: str) -> int:
    """Numbers that a part gives for each of two examples."""
    try:
        found = part.eval()(given)
    except (RuntimeError, TypeError, LookupError, AttributeError, NotImplementedError, AssertionError) as error:
        said = str(error) if " " in str(error) else repr(error)
        raise ValueError(f"the {name} cannot be called on {what}: {said}") from None
    if not isinstance(found, Tensor):
        raise TypeError(f"the {name} gives a {type(found).__name__}, and it must give one tensor")
    if found.ndim < 2 or len(found) != len(given):
        raise ValueError(
            f"the {name} gives shape {tuple(found.shape)} for {len(given)} examples: it needs one row for each"
        )
    return found[0].numel()
