"""The machine under a run: threads of a CPU, kernels and precision of a GPU, memory, cost of operators."""
