"""Kernels for TPUs, by Pallas' Mosaic.

launch      the function that starts a kernel: the grid, and the blocks in which arrays come
grid        the order in which tiles are visited, and the table that lists them
body        what is done at each step of the grid
values      expressions over a tile in registers
recurrence  kernels that go over the time
"""
