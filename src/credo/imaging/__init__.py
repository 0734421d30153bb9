"""The whole way from images to an autoencoder, its pictures and a report."""
