"""The parts of the one loop: batches, history, progress, checkpoints, interrupts."""
