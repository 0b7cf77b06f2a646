"""From a dataset and a configuration to a run folder with a trained model.

trainer                                 `fit`: devices and processes, then the loop
loop, step, queued                      epochs; one optimiser step; its figures, read later
optimizers, schedule                    what changes the weights, and how fast
run_state, saved_state, result          all that a run changes, on disk, and how it ended
interrupt                               signals, which save and stop
log, loggers, scalars, expected_time    what a run tells
tune                                    a search for settings
memory_plan                             the memory of a step, before it is made
"""
