"""Which tiles compute the arrays of a program, on accelerators.

statements   a simplified program as what is stored, each an expression of inputs and of others stored
terms        scalar expressions, and sums as a predicate and factors
roles        what a kernel does with each index of a statement
grouping     statements over the same tiles as one kernel
passes       rows too long to be held, as several statements
tiles        which tiles are visited, and which of them need masks
layouts      how tiles lie in a GPU's shared memory, and which layouts its matrix units take
operands     how the arrays that a kernel reads and writes lie
functions    scalar functions by formulas, where GPUs lack them
targets      what differs from one kind of accelerator to another
work         what kernels take for all sizes: operations on the tiles that are visited, bytes of blocks
growth       where that is no more than what `jax.numpy` takes for the same statement
recurrences  recurrences as kernels that go over the time, with the states in fast memory
staged       programs with recurrences: kernels of what is computed between them, and the recurrences
ir           the grammar of all that; `check` says whether a program of kernels is well formed
run          running it, on the accelerator that there is, or interpreted

`emit.tpu`, `emit.mosaic` and `emit.gpu` write the kernels, `emit.kernels` the module around them.
"""
