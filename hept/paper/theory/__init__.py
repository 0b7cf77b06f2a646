"""The error–computation analysis of kernel approximations: its lemmas, and its numerical experiment."""

from hept.paper.theory.experiment import Approximation, ExperimentConfig, ExperimentResult, run_experiment
from hept.paper.theory.lemmas import (
    bound_collision_probability,
    collision_probability,
    count_lsh_flops,
    count_rff_flops,
    lsh_error,
    rff_mean_squared_error,
)

__all__ = [
    "Approximation",
    "ExperimentConfig",
    "ExperimentResult",
    "bound_collision_probability",
    "collision_probability",
    "count_lsh_flops",
    "count_rff_flops",
    "lsh_error",
    "rff_mean_squared_error",
    "run_experiment",
]
