"""Hardware: threads of a CPU, kernels and precision of a GPU, out of memory, cost of operators."""
