"""What compiled programs do: operations, memory and collectives counted in XLA's text, and the machine's cost table.

    JAX function, arguments  --count-->        Count of operations and bytes, loops included
    text of XLA, a mesh      --collectives-->  what devices send each other
    this machine             --tuning-->       thresholds, which `tensorlang tune` keeps for `lowering.costs`

    hlo            the text of a compiled module as computations and instructions
    count          what each instruction is counted as: its docstring is the list
    collectives    which axes of a mesh each collective goes along
    tuning         rivals timed against each other at sizes around their crossover

Start at `count`. The command `check`, the linter for JAX's gradients, declared costs and the benchmarks use it; times
are only measured in `tuning` and in `benchmarks/`.
"""
