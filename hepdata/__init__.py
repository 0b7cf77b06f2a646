"""Raw collision events to η–φ point-cloud datasets, and datasets to anybody's arrays and tensors."""

from hepdata.cloud import PairList, PointCloud
from hepdata.errors import HeptError, InputError, JobError

__version__ = "0.1.0"
__all__ = ["HeptError", "InputError", "JobError", "PairList", "PointCloud"]
