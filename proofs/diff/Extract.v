(** The checker of types and bounds, the compiler, the adjoint, the forward derivative, the cost model, the points executed and the steps that carry charges, as an OCaml program (see
    driver.ml), with Coq's rationals; and the table of scalar functions.

    Naturals (places, ranks and sizes) become OCaml's integers, names its strings. [memo] is the identity; here it keeps
    a table. *)
Require Import QArith.
Require Import TL.SSA TL.Adjoint TL.Accounts TL.Bound TL.Storage TL.Sharing TL.Forward TL.Core TL.Typing TL.Compile TL.Program TL.Check TL.Functions TL.Carrying TL.Conditions.
Require Import Extraction ExtrOcamlBasic ExtrOcamlNatInt ExtrOcamlNativeString.
Extract Constant memo =>
  "(fun p -> let seen = Hashtbl.create 64 in
     fun i -> match Hashtbl.find_opt seen i with Some b -> b | None -> let b = p i in Hashtbl.add seen i b; b)".
(** of tensor SSA, and of expressions *)
Definition statement_value {K} := @SSA.eval K.
Definition program_cost {K fn} := @SSA.cost K fn.
Definition expression_cost {K fn} := @Core.cost K fn.
Extraction "tlssa.ml" box statement_value active adjoint program_cost dcost ipcost outsize touch prune forward
  expression_cost accepts arguments_of inputs decided erased compiled derivative leaves s0 psize tsize transpose arity bcost carried amounts
  Qplus Qmult Qopp Qinv Qred Qle_bool Z.div_eucl Z.opp Z.leb.
