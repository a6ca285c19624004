"""Kernels for GPUs, by Pallas' Mosaic GPU.

launch   the function that starts a kernel: lengths of tiles, the grid, shared memory and stages
body     what one program of the grid does: tiles fetched, reduced tiles taken in as they arrive, the outputs stored
values   expressions over a tile in registers, products of matrices in shared memory
memory   how that lies in shared memory, and how much it takes
tiles    which arrays are read in which tiles, and when these are copied to shared memory
choice   which kernels are written so, and why the others are left to Triton

Tables of visited tiles, and what is common to both kinds of code for GPUs, are in `emit.gpu`.
"""
