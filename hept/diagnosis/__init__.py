"""`hept.doctor`: whether this machine computes right, how fast, and what to send us.

verdict          one line of the diagnosis
environment      versions and device
event            a made-up event of any size: points, pair lists, files
kernels          errors of every kernel against float64
steps            training steps: determinism, half precision
speed            times and memory, ours and the authors' procedure in turns
two_processes    training in two processes is training in one
diagnosis        all of it, in order
"""
