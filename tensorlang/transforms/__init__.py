"""Programs under JAX's transformations: linearised, transposed and batched as programs, and bound as one primitive.

    Function  --to_jax-->  a JAX function  --flat-->  Program of arrays  --primitive-->  bound when JAX traces it
    jax.jvp, jax.linearize    Program  --linear-->  its value with what it stores, and a Linear program of differentials
    jax.vjp                   Linear, transposed for the cotangents that are asked for
    jax.vmap                  Program or Linear  --batch-->  the same with a size more

Each result is a program again, simplified as a whole, so transformations nest in any order. Where nothing is traced,
`to_jax` calls compiled code at once.

    to_jax         arguments as a user gives them; the checks; which way they go
    flat           pairs become arrays; statements taken apart and put together
    linear         what a derivative stores and what it reads: the adjoint split at its cotangent
    batch          which statements get the new axis, and which stay outside
    recurrences    the same for programs with recurrences, which store what they need of each step
    primitive      the rules that JAX calls, and how a program is compiled within another

Start at `linear`, whose docstring has the three programs that one adjoint becomes.
"""
