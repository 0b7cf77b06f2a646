"""Whole builds: raw events in, a dataset folder out, resumable and independent of the number of workers.

Modules:
    event_source, event_range                     the interface of a source of events, and which are taken
    tracking_source, pileup_source, pyg_source    TrackML, Delphes and torch_geometric files as sources
    tracking_choice                               presets of tracking builds, with changes
    pileup_inspect                                what a Delphes file contains
    split_rule                                    which event goes into which split and shard
    identity, staging                             what a build is, and its unfinished folder
    shard, engine, dask                           one shard; all shards in this process, a pool, or a cluster
    build, summary                                the whole build, and what it made
"""
