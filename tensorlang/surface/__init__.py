"""The two ways to write a program, text and Python; both give the same `Function`, checked for bounds.

    text      --lex-->  tokens    --parse-->  Function
    Python    --embed: the function is called with terms-->  a graph  --share-->  Function with lets
    Function  --inline-->  its body, where another program calls it

Start at `parse` or at `embed`; `syntax/` has the grammar as data, from which the reference and the editors are made.

Text: readers, each of which extends the one before
    the tokens, the names in scope, errors with their place       reader.py, lex.py
    sizes, index expressions and predicates                       conditions.py
    types of parameters                                           declarations.py
    what was read, with its place and type                        pieces.py
    calls; binders and lets; expressions                          calls.py, binding_forms.py, expressions.py
    derivatives inside of programs: `grad x. e`                   operators.py
    what was probably meant by invalid text                       mistakes.py, words.py

Python
    indices, conditions, terms; and their state                   terms.py, lookups.py, scope.py
    types of parameters; records of them                          parameter_types.py, records.py
    gen, sum, max, ..; fold, scan, ..; parts, choices             binders.py, recurrences.py, operations.py
    what values refuse, with an alternative                       refusals.py, foreign.py

Both
    quotients of indices; conditions on values                    quotients.py, guards.py
    a choice between values of any type                           either.py
    the standard library, also with options                       library.py, options.py

Functions of numbers
    the built-in ones as functions; a user's own                  scalars.py, declared.py
    `tl.scalar`, read from its source, and where to find that     scalar.py, known.py, scalar_text.py for text
    with loops that data end                                      loops.py, loop_expressions.py, loop_paths.py,
                                                                  loop_terms.py, tail_calls.py
"""
