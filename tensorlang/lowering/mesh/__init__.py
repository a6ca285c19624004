"""Programs on a mesh of devices, by `jax.shard_map` and JAX's collectives.

`sharding` maps names to axes of the mesh. A name is what stands before or after the colon of a binder `i:n`: an index,
as in the program that was given, or a size, which stands for all indices that run over it. Sizes keep their names
through simplification and differentiation, so they are the better choice for adjoints, whose indices get new names.

    asked.py        the names, and how they lay out arrays: an axis of an array is cut into blocks as the index that
                    makes it, or else as the first index that it is read at
    statements.py   the simplified program as statements, each a scalar under gens, and what each reads
    plan.py         for each statement the indices that are mapped, of which a device has a block, and what it needs
    hoist.py        sums over mapped indices as statements of their own, where the statement is not linear in them
    needs.py        the part of an array that reads at a block's indices need
    local.py        statements over blocks, which are programs again, and lowered as all others are
    collectives.py  what is sent, as formulas of the sizes
    partition.py    how parameters and results lie of programs that XLA distributes: those with recurrences
    run.py          checking arguments, and running it

`emit.mesh` writes these, and between them what devices send each other, as one function under `jax.shard_map`. A
program with recurrences, numbers of indices, functions from outside, or choices that other devices look up, is
written as for one device, by `emit.partitioned`, between parameters and results that are laid out; XLA's partitioner
decides the rest.

What a statement reads is on the device that computes it, or it is sent there before:

- An axis that is cut as the mapped index i is read at i: the block is there.
- It is read at i + c, or i + j with j over a range: `ppermute` brings the edges of the neighbours' blocks, or where
  that is more than a neighbour has, `all_gather` brings all. Steps, as in x[2*i], are taken in the same way.
- It is read at an index that is not mapped, or mapped along other axes, or at data: `all_gather`.
- An axis that is whole on every device is cut where it is read: nothing is sent.
- A sum over a mapped index is a part of the sum on each device: `psum`. If an index of the result is to lie along the
  same axes, `psum_scatter`. Of several indices of one statement that would be mapped along the same axes, one is.

An extremum is over an index that is whole. Statements without mapped indices are computed by every device, and the
source says so. None of this changes a result, except by the order in which numbers are added.

A program over blocks has no sizes except those of blocks and of the program. An index of the program is i + start,
where i counts within a block, and the start is data: an index array without axes. So comparisons become masks,
equalities gathers, and lowering needs to know nothing of meshes. An array that is cut unevenly is padded with zeros,
and sums over an index of it are masked; such forms of the program are made when such sizes come.
"""
