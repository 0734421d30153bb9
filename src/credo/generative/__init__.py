"""Models of the data themselves: the variational autoencoder."""

from credo.generative.bound import AutoEncodingBayes, Bound, Latents
from credo.generative.vae import VAE, Bounds, Encoding, FittedVAE, fit

__all__ = ["VAE", "AutoEncodingBayes", "Bound", "Bounds", "Encoding", "FittedVAE", "Latents", "fit"]
