"""Events to point clouds: coordinates, features, labels, sectors, and the order of points."""
