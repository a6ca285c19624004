(** The adjoint, the cost model and the points executed, as an OCaml program (see driver.ml), with Coq's rationals.

    Naturals (places, ranks and sizes) become OCaml's integers. [memo] is the identity; here it keeps a table. *)
Require Import QArith.
Require Import TL.SSA TL.Adjoint TL.Accounts TL.Bound TL.Storage TL.Sharing.
Require Import Extraction ExtrOcamlBasic ExtrOcamlNatInt.
Extract Constant memo =>
  "(fun p -> let seen = Hashtbl.create 64 in
     fun i -> match Hashtbl.find_opt seen i with Some b -> b | None -> let b = p i in Hashtbl.add seen i b; b)".
Extraction "tlssa.ml" box eval active adjoint cost dcost ipcost outsize touch prune
  Qplus Qmult Qopp Qinv Qred Qle_bool Z.div_eucl Z.opp Z.leb.
