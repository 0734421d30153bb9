"""Models of the data themselves: the variational autoencoder."""

from credo.generative.bound import AutoEncodingBayes, Bound, Latents
from credo.generative.fitted import Bounds, Encoding, FittedVAE
from credo.generative.vae import VAE, fit

__all__ = ["VAE", "AutoEncodingBayes", "Bound", "Bounds", "Encoding", "FittedVAE", "Latents", "fit"]
