"""Python, from nodes: nobody else writes any.

nodes        what kernels and programs on several devices need beyond the nodes of array programs
python       expressions with few parentheses, statements in lines of limited length
conditions   predicates as nodes
operations   how the operations of array programs are called in Python
module       a whole module: imports, costs, copied functions, definitions
shared       scalar functions that compute several results at once
kernels      the module of a program of kernels, which `tpu`, `mosaic` (GPUs by Mosaic GPU) and `gpu` (by Triton) write
mesh         the module of a program on several devices
turns        which outputs of the steps of a recurrence its arrays are made of
recurrences  the function of a program with recurrences, in which its steps are functions; `staged_kernels` of one on an
             accelerator
helpers      the functions of `library`, which generated code brings along
"""
