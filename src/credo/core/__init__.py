"""The ground floor: streams of randomness, trees of tensors, optimisers, storage. Imports torch only."""
