"""The ground floor: streams of randomness, trees of tensors, optimizers, storage. Imports torch only."""
