"""Kernels for GPUs, by Pallas' Triton.

launch      the function that starts a kernel: lengths of tiles, the grid, warps and stages
table       which tiles each program of the grid visits
body        what one program does: reduced tiles one after the other, then the outputs
values      expressions over a tile, products of matrices
reads       places, conditions and elements of arrays, each computed in the outermost block where it is known
naming      what all of that is called
recurrence  kernels that go over the time
"""
