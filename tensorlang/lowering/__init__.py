"""Lowering: from a simplified function to Python that JAX runs.

    Function  --plan-->  Plan  --arrays-->  ArrayProgram  --emit-->  Python        target "jax"
              --kernels-->  Program of kernels and fallbacks  --emit-->  Python    targets "pallas-tpu", "pallas-gpu"
              --mesh-->  Plan of stages, a function for each  --emit-->  Python    on several devices

Between the stages stand values, each with its grammar at the top of its module:

    plan/ir.py         which arrays there are, and how each is stored: printed by `str`, checked by
                       `plan/check.py` as it is made
    arrays/ir.py       which operations compute them: printed by `printer`, checked by `check`, run by NumPy in
                       `interpret`, counted for all sizes in `work`, compared with the model in `cost`
    kernels/ir.py      which tiles compute them: printed by `str`, checked by `kernels/check.py`

Where it is decided
    which arrays are computed where they are read                 plan/inline.py
    which triangles of products are never stored                 plan/running_products.py
    which statements of the same form become one                  plan/reroll.py
    in which order the axes of an array lie in memory             plan/axis_order.py
    which sums are added up in one pass                           plan/fuse_sums.py
    which arrays are stored at the points of a relation           plan/sparse.py
    which products a step makes itself                            plan/in_step.py
    which part of states is kept over the time                    plan/read_parts.py
    which masks of the time hide nothing but zeros                plan/needless_masks.py
    which arrays are cut into blocks of rows                      plan/triangular.py
    which arrays XLA must write to memory                         plan/materialize.py
    in which order all that happens                               plan/passes.py
    which guards hide nothing but zeros                           plan/guards.py
    which extrema are only read where they are not empty          plan/needless_guards.py
    how a sum is computed                                         arrays/sums/strategies.py, one module for each way
    how an extremum is computed                                   arrays/extrema.py
    how elements are read: slices, gathers, among zeros           arrays/accesses.py
    how a bracket is computed: shorter axes, zeros, masks         arrays/brackets.py
    which sums of terms are pieces side by side or in turns       arrays/concatenate.py
    what gets a name of its own in a statement                    arrays/scope.py (`short`), arrays/expressions.py
    what is computed from parts of scalar expressions, anywhere   arrays/fold.py
    how parameters become arrays, and which sizes they determine  arrays/signature.py, for all targets
    how all of that is written                                    emit/python.py, from nodes: for kernels emit/tpu/,
                                                                  emit/mosaic/ and emit/gpu/ make them, for several
                                                                  devices emit/mesh.py
    how functions of numbers, with their loops, are written       emit/scalars.py, for GPUs by kernels/functions.py
    which kernels are by Mosaic GPU, which by Triton              emit/mosaic/choice.py
    what generated code sees of Python and its packages           namespace.py
    what is chosen by sizes when the program is traced            emit/library/, by the thresholds in costs.py
    which loops become a kernel, and which are left to jax.numpy  kernels/grouping.py, kernels/roles.py
    which recurrences become one, and which are left to lax.scan  kernels/recurrences.py
    how long tiles are, and what an accelerator can't have        kernels/targets.py
    which kernels would take more than jax.numpy does             kernels/growth.py, by the counts in kernels/work.py
    which indices are mapped to which devices                     mesh/plan.py

`lower(f).explain()` tells what was decided for a program, what was not, and why. What runs is measured in
`tensorlang.measure`.
"""
