"""From a trained model and a dataset to metrics, tracks and predictions.

inference                                   the one pass over a split, which all others share
evaluator, pair_curve                       figures of merit and curves
reconstruction, scoring, truth, tuning      tracks from embeddings, how good they are, the best way to them
predictor, cleaner                          answers for every point, for every particle of a raw Delphes file
"""
