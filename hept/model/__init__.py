"""From settings and inputs to a network, and trained networks on disk.

build                                            a network from settings
transformer, heads, activation, mlp              its parts
preparation, network                             inputs compressed and standardised, then these parts
prepare_cloud, dataset_checks                    the model's columns of a cloud or batch; does a dataset fit
weights, trained, checksums                      weights files, and what `hept.load_model` returns
published_weights, kept, hub                     the authors' weights, those that come along, those of a hub
cost, flops                                      parameters and operations
"""
